package follow

import (
	"encoding/json"
	"fmt"
)

// Event is a committed event.
type Event struct {
	Stream   string          `json:"stream"`
	Seq      uint64          `json:"seq"`
	Position uint64          `json:"position"`
	ID       string          `json:"id"`
	Type     string          `json:"event_type"`
	Schema   int             `json:"schema"`
	At       string          `json:"at"`
	Actor    json.RawMessage `json:"actor"`
	// Data is the clear data, and the opened content as its member "content".
	Data json.RawMessage `json:"data"`
	Hash string          `json:"hash"`
	// SealDigest is of the content, where there is any; without a Salt the content can't be opened any more.
	SealDigest string `json:"seal_digest"`
	Salt       string `json:"salt"`
	// Stored comes with the proof Verified.
	Stored *Stored `json:"stored"`
}

// Stored is what is stored of an event, byte for byte, to verify it by.
type Stored struct {
	Data  string  `json:"data"`
	Text  *string `json:"text"` // the opened content
	Actor string  `json:"actor"`
	At    string  `json:"at"`
}

// Live is a provisional frame, or several joined.
type Live struct {
	RunID   string          `json:"run_id"`
	Turn    int             `json:"turn"`
	Attempt int             `json:"attempt"`
	N       int             `json:"n"`
	Kind    string          `json:"kind"`
	Offset  int             `json:"offset"` // bytes of text that the attempt had before
	Blocks  int             `json:"blocks"`
	Data    json.RawMessage `json:"-"`
}

// Reset says that a subscription can't go on from where it is.
type Reset struct {
	Subscription string
	Reason       string // beyond_head, other_hash, pruned, too_old, access
	Head         Place  // from which on it can be followed once what it follows is loaded anew
}

// Error implements error.
func (r *Reset) Error() string {
	return fmt.Sprintf("follow: %s must be loaded anew (%s), and goes on after %d", r.Subscription, r.Reason, r.Head.Cursor)
}

// Refusal is a subscription that the backend does not give.
type Refusal struct {
	Subscription  string
	Code, Message string
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("follow: %s is refused: %s (%s)", r.Subscription, r.Message, r.Code)
}

// Violation is an event that can't be what was committed. Nothing heals it.
type Violation struct {
	Subscription string
	Stream       string
	Seq          uint64
	Position     uint64
	Why          string
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("follow: %s: event %d of %s at position %d %s", v.Subscription, v.Seq, v.Stream, v.Position, v.Why)
}

// frame is any frame from the backend. Of those that are no events ID is what they answer.
type frame struct {
	Event
	Live

	Kind         string          `json:"type"`
	Data         json.RawMessage `json:"data"`
	Subscription string          `json:"subscription"`
	Cursor       uint64          `json:"cursor"`
	Events       []Event         `json:"events"`
	Head         uint64          `json:"head"`
	HeadHash     string          `json:"head_hash"`
	Reason       string          `json:"reason"`
	AfterMS      int64           `json:"after_ms"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	RetryAfter   int             `json:"retry_after"`
}

// event is that of an `event` frame.
func (f *frame) event() Event {
	e := f.Event
	e.Data = f.Data
	return e
}

// live is that of a `live` frame.
func (f *frame) live() Live {
	l := f.Live
	l.Data = f.Data
	return l
}
