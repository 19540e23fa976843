// Package streams is the log as the rest of Cairn sees it: recorded events, positions, checkpoints, and
// the ports through which the log asks for states, answers, keys and history. It holds no Kafka and no SQL.
package streams

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// Place is where an event lies in the log. It is never an identity.
type Place struct {
	Partition int32
	Offset    int64
	Index     int
}

// Recorded is an event as it stands in the log: clear data verbatim, content sealed.
type Recorded struct {
	ID       string
	Scope    domain.Scope
	Stream   domain.Stream
	Version  uint64 // place in its stream: 1, 2, 3 … without gaps
	Position uint64 // place in its scope: 1, 2, 3 … without gaps
	Type     string // wire name
	Schema   int
	At       string          // decided_at as stored: RFC 3339, UTC, six digits
	Actor    json.RawMessage // as stored
	Data     json.RawMessage // clear data, as stored

	Sealed     []byte // nil: the event has no content
	Key        int    // version of the data key
	SealDigest []byte
	Hash       []byte // chain

	CommandID     string
	CorrelationID string
	CausationID   string
	Era           int
	Place         Place

	// Trace is the traceparent of what appended it, or "". It stands beside the commit in the log, and nowhere else.
	Trace string
}

// TimeLayout is the form of every stored time.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// Time is At as a time.
func (r Recorded) Time() time.Time {
	t, _ := time.Parse(TimeLayout, r.At)
	return t
}

// Commit is one decided command as it stands in the log.
type Commit struct {
	Era           int
	Lead          int64
	Writer        string
	CommandOffset int64
	After         CommandPlace
	Scope         domain.Scope // empty, with CommandID, where the command's headers could not be read
	CommandID     string
	Fingerprint   []byte
	DecidedAt     string
	Actor         json.RawMessage
	CorrelationID string
	CausationID   string
	Rejected      *domain.Rejection
	Events        []Recorded
	Place         Place  // Index 0
	Trace         string // see Recorded
}

// CommandPlace is a command's offset and the era it counts in.
type CommandPlace struct {
	Era    int
	Offset int64
}

// Acceptance is what a reader of the log remembers to tell what counts (DESIGN section 3).
// Its start is {After: {0, -1}}: use NewAcceptance.
type Acceptance struct {
	Era    int
	Lead   int64
	Writer string
	Closed bool
	After  CommandPlace // of the last counted commit
}

// NewAcceptance is what a reader remembers before the first record.
func NewAcceptance() Acceptance { return Acceptance{After: CommandPlace{Era: 0, Offset: -1}} }

// Checkpoint is a reader's place in a partition.
type Checkpoint struct {
	Next       int64 // the log offset it will read next
	Acceptance Acceptance
}

// Start is the checkpoint of a reader that has read nothing.
func Start() Checkpoint { return Checkpoint{Acceptance: NewAcceptance()} }

// Position is where a scope stood after a write or a read. Its text is opaque to clients.
type Position struct {
	Scope     domain.Scope
	Position  uint64
	Era       int
	Partition int32
	Offset    int64 // of the commit in the log
}

// PositionOf is where a scope stood when an event was recorded.
func PositionOf(r Recorded) Position {
	return Position{Scope: r.Scope, Position: r.Position, Era: r.Era, Partition: r.Place.Partition, Offset: r.Place.Offset}
}

// ErrPosition is a text that is no position.
var ErrPosition = errors.New("malformed position")

// String is the opaque text.
func (p Position) String() string {
	raw := fmt.Sprintf("1|%s|%d|%d|%d|%d", p.Scope, p.Position, p.Era, p.Partition, p.Offset)
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}

// ParsePosition reads what String wrote. It answers ErrPosition for anything else.
func ParsePosition(text string) (Position, error) {
	if len(text) > 512 {
		return Position{}, ErrPosition
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Position{}, ErrPosition
	}
	parts := strings.Split(string(raw), "|")
	if len(parts) != 6 || parts[0] != "1" || !domain.Scope(parts[1]).Valid() {
		return Position{}, ErrPosition
	}
	p := Position{Scope: domain.Scope(parts[1])}
	position, err1 := strconv.ParseUint(parts[2], 10, 63)
	era, err2 := strconv.ParseInt(parts[3], 10, 32)
	partition, err3 := strconv.ParseInt(parts[4], 10, 32)
	offset, err4 := strconv.ParseInt(parts[5], 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil || era < 0 || partition < 0 || offset < 0 {
		return Position{}, ErrPosition
	}
	p.Position, p.Era, p.Partition, p.Offset = position, int(era), int32(partition), offset
	return p, nil
}
