// Package faults is what the chaos program does to an installation. Each fault injures it in one way, waits until it has
// healed, and returns; what came of it is judged elsewhere.
package faults
