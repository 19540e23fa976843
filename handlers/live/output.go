package live

import (
	"encoding/json"

	"github.com/cairnhq/cairn/domain/thread"
)

// OutputKind says what an Output is.
type OutputKind int

// The kinds, in the order in which a run's first ones come: Domain (floating only), Start, then Text, Block
// and Retry in any number, and exactly one End.
const (
	OutputStart  OutputKind = iota + 1
	OutputDomain            // what a floating request is about: Text is tasks, checkpoints, notes or projects
	OutputText              // Text goes on where the last one stopped
	OutputBlock             // Block is its type, Data its content
	OutputRetry             // what was sent of this turn since the last committed text is void
	OutputEnd               // the last one; Text is the whole committed text of the run, without its blocks
)

// Output is a piece of a run's answer.
type Output struct {
	Kind  OutputKind
	Text  string
	Block string
	Data  json.RawMessage
	// Error says why a run did not complete; nil where it did. Only an End has one.
	Error *Failure
	// Mutations are what the run changed on the device. Only an End has them.
	Mutations []thread.Mutation
	// Keep is what stays of the answer. Only a Retry has one: what came after it is void.
	Keep Keep
	// Committed counts what of the answer can't be taken back any more, this output included. Nil: that is not the end of
	// something committed.
	Committed *Keep
	// Position is where the run's end lies: a read with it as min_position shows the whole run. Only an End has one.
	Position string
	// Version is the newest version of the thread's stream that went into the answer so far.
	Version uint64
}

// Keep counts what was sent since the start: bytes of text, and blocks.
type Keep struct {
	Text   int `json:"text"`
	Blocks int `json:"blocks"`
}

// Failure is why a run ended without completing.
type Failure struct {
	Code    string `json:"code"` // "cancelled", or a thread.FailureClass
	Message string `json:"message"`
}

// FollowFrom says where the story begins and how it is told.
type FollowFrom struct {
	// Posted is the version to which the command that posted the message brought the thread's stream, by its answer. It is
	// where the story begins, and tells whether the run was pruned. 0: not known.
	Posted uint64
	// After is a version of the thread's stream before which nothing of the run's work lies, where more than Posted is known.
	After uint64
	// Channel says how committed text is formatted, and whether a Domain comes first.
	Channel thread.Channel
}

// ranBefore is more than the events that one PostMessage command appends.
const ranBefore = 8

// after is the version behind which the run's events begin.
func (f FollowFrom) after() uint64 {
	if f.Posted < ranBefore {
		return f.After
	}
	return max(f.After, f.Posted-ranBefore)
}
