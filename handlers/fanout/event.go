package fanout

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Event is a committed event, shared by all who are given it. What Pull has answered does not change any more.
type Event struct {
	Scope    domain.Scope
	Stream   domain.Stream
	Seq      uint64
	Position uint64
	Type     string
	Hash     []byte
	// JSON are the members of an `event` frame from "stream" on, without braces.
	JSON []byte
	// Stored is JSON and the member "stored"; nil unless the subscription's Form is Stored.
	Stored []byte

	recorded streams.Recorded
	place    *streams.Checkpoint // from which on the log has it; nil: not known
	topics   [2]*topic           // of the ring that has it
	size     int                 // what it takes in memory, about, before it is prepared

	decided atomic.Int64 // in nanoseconds; 0: not looked at

	ready   atomic.Int32 // the forms that are made, as bits
	mu      sync.Mutex   // held for no longer than it takes to decode
	run     *string      // whose it is, once that was looked for
	grown   int          // what it takes beyond size since it was prepared: content is stored compressed
	keepers int
	kept    *atomic.Int64 // the sum of that for the keepers; nil: there is none
	clear   any           // decoded
	whole   any           // opened
}

// eventOverhead is what an event takes beside its bytes.
const eventOverhead = 1024

func newEvent(r streams.Recorded, place *streams.Checkpoint) *Event {
	return &Event{
		Scope: r.Scope, Stream: r.Stream, Seq: r.Version, Position: r.Position, Type: r.Type, Hash: r.Hash,
		recorded: r, place: place, size: eventOverhead + 3*(len(r.Data)+len(r.Sealed)),
	}
}

// Recorded is the event as it is in the log.
func (e *Event) Recorded() streams.Recorded { return e.recorded }

func (e *Event) made(f Form) bool { return f == Bare || e.ready.Load()&(1<<f) != 0 }

// bytes is what was prepared of it.
func (e *Event) bytes(f Form) []byte {
	switch f {
	case Stored:
		return e.Stored
	case Bare:
		return e.recorded.Data
	default:
		return e.JSON
	}
}

// make prepares a form, once for all, with a context that waits for nothing. It fails where the content can't be opened now.
func (e *Event) make(ctx context.Context, h *Hub, f Form) error {
	grew, err := e.prepare(ctx, h, f)
	if grew {
		h.of(e.Scope).shrink()
		h.pages.shrink()
	}
	return err
}

func (e *Event) prepare(ctx context.Context, h *Hub, f Form) (grew bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made(f) {
		return false, nil
	}
	text, salt, err := h.Schema.Text(ctx, h.Keys, e.recorded)
	if errors.Is(err, codec.ErrTampered) || errors.Is(err, codec.ErrUndecodable) || (err == nil && len(text) > 0 && !json.Valid(text)) {
		h.Log.WarnContext(ctx, "an event is delivered without its content, which can't be opened", "event", e.recorded.ID, "error", err)
		text, salt = nil, nil
	} else if err != nil {
		return false, fmt.Errorf("fanout: opening event %s: %w", e.recorded.ID, err)
	}
	if !e.made(Plain) {
		e.JSON = e.plain(text, salt)
	}
	if f == Stored {
		e.Stored = e.stored(text)
	}
	e.ready.Or(1<<Plain | 1<<f)
	was := e.grown
	e.grown = max(0, len(e.JSON)+len(e.Stored)+eventOverhead-e.size)
	if e.kept == nil {
		return false, nil
	}
	e.kept.Add(int64(e.grown - was))
	return e.grown-was >= grownMuch, nil
}

// grownMuch is what is looked after at once; less waits until more is kept.
const grownMuch = 16 << 10

// keep has what the event grows by counted by who keeps it. Several pages may have it, and count it once.
func (e *Event) keep(by *atomic.Int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keepers++; e.keepers == 1 {
		e.kept = by
		by.Add(int64(e.grown))
	}
}

// leave is that one keeps it no more.
func (e *Event) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keepers--; e.keepers == 0 {
		e.kept.Add(-int64(e.grown))
		e.kept = nil
	}
}

func (e *Event) plain(text, salt []byte) []byte {
	r := &e.recorded
	b := make([]byte, 0, 420+len(r.Actor)+len(r.Data)+len(text))
	b = append(b, `"stream":"`...)
	b = append(b, r.Stream...)
	b = strconv.AppendUint(append(b, `","seq":`...), r.Version, 10)
	b = strconv.AppendUint(append(b, `,"position":`...), r.Position, 10)
	b = append(append(append(b, `,"id":"`...), r.ID...), `","event_type":"`...)
	b = append(b, r.Type...)
	b = strconv.AppendInt(append(b, `","schema":`...), int64(r.Schema), 10)
	b = append(append(append(b, `,"at":"`...), r.At...), `","actor":`...)
	b = append(orNull(b, r.Actor), `,"data":`...)
	b = data(b, r.Data, text)
	b = hex.AppendEncode(append(b, `,"hash":"`...), r.Hash)
	b = append(b, '"')
	if len(r.SealDigest) > 0 {
		b = append(hex.AppendEncode(append(b, `,"seal_digest":"`...), r.SealDigest), '"')
	}
	if len(salt) > 0 {
		b = append(hex.AppendEncode(append(b, `,"salt":"`...), salt), '"')
	}
	return b
}

// data is the clear data and the content as one object.
func data(b, open, text []byte) []byte {
	if len(text) == 0 {
		return orNull(b, open)
	}
	if n := len(open); n >= 2 && open[0] == '{' && open[n-1] == '}' {
		b = append(b, open[:n-1]...)
		if n > 2 {
			b = append(b, ',')
		}
	} else {
		b = append(b, '{')
	}
	return append(append(append(b, `"content":`...), text...), '}')
}

func orNull(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

// stored adds what is stored to JSON: data, text, actor and at are strings that hold the stored bytes. The text is the
// opened blob, which the digest covers.
func (e *Event) stored(text []byte) []byte {
	r := &e.recorded
	b := make([]byte, 0, len(e.JSON)+2*(len(r.Data)+len(text))+len(r.Actor)+128)
	b = append(append(b, e.JSON...), `,"stored":{"data":`...)
	b = quote(b, r.Data)
	if len(r.SealDigest) > 0 && text != nil {
		b = quote(append(b, `,"text":`...), text)
	}
	b = quote(append(b, `,"actor":`...), r.Actor)
	return append(quote(append(b, `,"at":`...), []byte(r.At)), '}')
}

// quote appends bytes as a JSON string. What is stored is UTF-8: it is JSON, made by this program.
func quote(b, raw []byte) []byte {
	b = append(b, '"')
	start := 0
	for i, c := range raw {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, raw[start:i]...)
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
		start = i + 1
	}
	return append(append(b, raw[start:]...), '"')
}

// Decode is codec.Schema.Decode, done once for all who share the event.
func (e *Event) Decode(schema *codec.Schema) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	if e.clear == nil {
		e.clear, err = schema.Decode(e.recorded)
	}
	return e.clear, err
}

// Open is codec.Schema.Open, done once for all who share the event, but for those who come while the first waits for a key.
func (e *Event) Open(ctx context.Context, schema *codec.Schema, keys streams.Keys) (any, error) {
	e.mu.Lock()
	whole := e.whole
	e.mu.Unlock()
	if whole != nil {
		return whole, nil
	}
	whole, err := schema.Open(ctx, keys, e.recorded)
	if err != nil {
		return nil, err //nolint:wrapcheck // as the codec says it
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.whole == nil {
		e.whole = whole
	}
	return e.whole, nil
}

// age is how long ago it was decided. The time is read once for all who are given the event.
func (e *Event) age(now time.Time) time.Duration {
	at := e.decided.Load()
	if at == 0 {
		at = e.recorded.Time().UnixNano()
		e.decided.Store(at)
	}
	return time.Duration(now.UnixNano() - at)
}
