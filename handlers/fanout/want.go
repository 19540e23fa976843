package fanout

import (
	"errors"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
)

// Want is what a subscriber asks for.
type Want struct {
	// Who asks; Access decides whether it may.
	Who   accounts.Principal
	Scope domain.Scope
	// Stream is one stream of the scope; empty: the whole scope.
	Stream domain.Stream
	// Filter leaves events of a scope out; the cursor moves over them.
	Filter Filter
	From   From
	// AfterHash is the hash of the event at From, where the subscriber has it. If the log has another there, that is a Reset.
	AfterHash []byte
	// Form is what is prepared of every event.
	Form Form
	// Live asks for the provisional frames of the stream.
	Live Liveness
}

// Filter says which events of a scope are wanted. Its zero value wants all.
type Filter struct {
	// AgentID wants the events of runs that an agent answers, from the one on that says so.
	AgentID string
	// Types wants events of these wire names.
	Types []string
}

// Empty reports whether everything is wanted.
func (f Filter) Empty() bool { return f.AgentID == "" && len(f.Types) == 0 }

// From is a cursor: a version of a stream, or a position of a scope, which the subscriber has. Its zero value is Now.
type From struct {
	set   bool
	after uint64
}

// Now is the newest event: only what comes later is wanted.
func Now() From { return From{} }

// After is a cursor; 0 is the beginning.
func After(cursor uint64) From { return From{set: true, after: cursor} }

// Form is how much of an event is prepared.
type Form int

// The forms.
const (
	Plain  Form = iota // Event.JSON
	Stored             // Event.Stored: the same, and what is stored, byte for byte, to verify it by
	Bare               // nothing: who follows decodes and opens what it needs
)

// Liveness says whether provisional frames are wanted.
type Liveness int

// The kinds.
const (
	Committed Liveness = iota // committed events only
	Live                      // and provisional frames, those that come from now on
	Recent                    // and those that are kept, for others or by Expect
)

// ErrNotFound is what is not there, or not the subscriber's: it is not told which.
var ErrNotFound = errors.New("fanout: there is no such stream, or it is somebody else's")

// Pulled is what a subscription could be given now.
type Pulled struct {
	// Events come in order and without a gap but for what the filter left out.
	Events []*Event
	// Live are provisional frames; they come after Events.
	Live []Frame
	// Cursor is where the subscription is after them: it may have moved without an event.
	Cursor uint64
	// Reset says that the subscription has ended; it comes after Events, and last.
	Reset *Reset
	// More: what is left of the budget did not suffice; Pull again without waiting for notify.
	More bool
}

// Frame is a provisional frame, or several joined. Several are of one run, turn, attempt and kind "text": Text is theirs
// joined, Offset and Blocks are the first one's, N is the last one's.
type Frame struct {
	RunID   string
	Turn    int
	Attempt int
	N       int
	Kind    string
	// Offset is how many bytes of formatted text, and Blocks how many blocks, the attempt had sent before.
	Offset int
	Blocks int
	Text   string
	Data   []byte // JSON
	Trace  string
}

// Reason is why a subscription can't go on from where it is.
type Reason string

// The reasons.
const (
	BeyondHead Reason = "beyond_head" // the cursor is of no event yet
	OtherHash  Reason = "other_hash"  // the event at the cursor is another one
	Pruned     Reason = "pruned"      // what comes next was deleted
	TooOld     Reason = "too_old"     // the cursor is further back than one may go on from
	NoAccess   Reason = "access"      // the scope was erased, or access to it ended
)

// Reset is the end of a subscription: what it follows must be loaded anew, and can be followed from Head on.
type Reset struct {
	Reason   Reason
	Head     uint64
	HeadHash []byte // nil where Head is 0, or with NoAccess
}
