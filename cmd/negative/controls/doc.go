// Package controls holds one law for each safety mechanism, as tests that need nothing but one binary: green as Cairn is
// shipped, and red, each of them, in a build whose mechanism is turned off. Program negative shows both.
package controls
