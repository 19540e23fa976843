// Package safety names the mechanisms that Cairn's promises rest on, so that a test can show what breaks without one. It is
// not a configuration: only a build with the tag "negative" can turn one off, by the environment variable CAIRN_OFF; in every
// other build Off is false, and the compiler drops what stands behind it. docs/guarantees.md says which test goes red for which.
package safety

// Mechanism is one of them.
type Mechanism string

// The mechanisms.
const (
	ReadBack      Mechanism = "read-back"      // a writer says nothing of a commit before it has read it back as counted
	FirstLead     Mechanism = "first-lead"     // of several leads of a number the first in the log wins
	Acceptance    Mechanism = "acceptance"     // only the current lead's commits count
	After         Mechanism = "after"          // a commit counts only if it continues the last counted one
	Close         Mechanism = "close"          // nothing counts after a close
	Positions     Mechanism = "positions"      // a reader stops at a counted commit that leaves a gap
	RememberedIDs Mechanism = "remembered-ids" // a command's id is looked up before it is decided
	IDsInFlight   Mechanism = "ids-in-flight"  // ids decided and not yet read back count as known
	Flush         Mechanism = "flush"          // writer states are stored only from the checkpoint that is expected
	SetBack       Mechanism = "set-back"       // what is loaded must be of a checkpoint that this writer stored
	Checkpoint    Mechanism = "checkpoint"     // a read model moves only from the checkpoint that is expected
	Live          Mechanism = "live"           // a read takes rows of the generation that is the live one in its own snapshot
	OneOutcome    Mechanism = "one-outcome"    // an effect has the first outcome that reaches the decider, and no other
	StartEffect   Mechanism = "start-effect"   // what must not be repeated is begun once
	DeviceJournal Mechanism = "device-journal" // a device answers a call that it knows from its journal
)

// All are the mechanisms, in the order in which a command meets them.
func All() []Mechanism {
	return []Mechanism{
		FirstLead, Acceptance, After, Close, Positions, ReadBack, RememberedIDs, IDsInFlight, Flush, SetBack,
		Checkpoint, Live, OneOutcome, StartEffect, DeviceJournal,
	}
}
