// Package leadmodel is the leading protocol of DESIGN section 3 as a small model that a test searches
// exhaustively. It is no part of the program: it holds tests only, and uses the acceptance rule that the
// program uses.
//
// One partition, two command ids, one of them sent twice, up to three incarnations of writers that may all be
// alive at once. Everything that was sent to the log is in flight until it lands, in any order, at any
// time, possibly never, possibly twice. A writer that is never scheduled again is dead, one that is scheduled late
// was paused; so neither needs a step of its own. Odd incarnations are another release, which decides
// differently. Writers store states and forget what they stored; the store may be set back to what it was.
//
// What must hold: no command is decided twice or skipped, positions have no gap, and whatever was answered
// is what the log says, for ever. Each safety mechanism has a control that takes it away, in which the search must find a
// violation.
package leadmodel
