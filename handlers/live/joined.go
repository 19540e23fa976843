package live

import (
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/cairnhq/cairn/handlers/fanout"
)

// What is below this many bytes is copied into one piece with its neighbours: to hand a piece of its own to the kernel
// costs more than the copy. What is above is shared by all who are sent it, and never copied here.
const copiedBelow = 2 << 10

// keptAtMost is how large the memory of a write may be to be used again.
const keptAtMost = 512 << 10

// The first bytes of frames: final, unfragmented (RFC 6455, section 5.2).
const (
	finalText  = 0x81
	finalClose = 0x88
	finalPing  = 0x89
)

// joined is what leaves in one write: whole frames, of their headers and payloads.
type joined struct {
	text   []byte
	begun  int // where in text the piece begins that grows
	pieces net.Buffers
	bytes  int   // of payloads
	size   int   // of all
	ends   []int // of the frames
	places []place
}

// place is where a subscription's client is when it has had so many bytes.
type place struct {
	end          int
	subscription *subscription
	cursor       uint64
}

// writes lends the memory of writes: a socket has none while it has nothing to write.
type writes struct{ pool sync.Pool }

func (w *writes) take() *joined {
	if j, ok := w.pool.Get().(*joined); ok {
		return j
	}
	return new(joined)
}

func (w *writes) give(j *joined) {
	j.reset()
	if cap(j.text) <= keptAtMost {
		w.pool.Put(j)
	}
}

func (j *joined) reset() {
	clear(j.pieces[:cap(j.pieces)])
	clear(j.places)
	*j = joined{text: j.text[:0], pieces: j.pieces[:0], ends: j.ends[:0], places: j.places[:0]}
}

// frame begins a text frame of so many bytes, which must follow.
func (j *joined) frame(size int) {
	before := len(j.text)
	j.text = appendTextHeader(j.text, size)
	j.bytes += size
	j.ended(len(j.text) - before + size)
}

func (j *joined) ended(size int) {
	j.size += size
	j.ends = append(j.ends, j.size)
}

// at notes where a subscription's client is that has had what was joined so far.
func (j *joined) at(s *subscription, cursor uint64) {
	j.places = append(j.places, place{j.size, s, cursor})
}

// settle notes where the subscriptions' clients are that had so many bytes.
func (j *joined) settle(had int) {
	for _, p := range j.places {
		if p.end <= had {
			p.subscription.cursor.Store(p.cursor)
		}
	}
}

// end is where the frame ends that so many bytes reach into.
func (j *joined) end(bytes int) int {
	if bytes == 0 {
		return 0
	}
	i, _ := slices.BinarySearch(j.ends, bytes)
	return j.ends[i]
}

// first are so many bytes of what b has.
func first(b net.Buffers, bytes int) net.Buffers {
	for i, piece := range b {
		if len(piece) >= bytes {
			b[i] = piece[:bytes]
			return b[:i+1]
		}
		bytes -= len(piece)
	}
	return b
}

func (j *joined) add(p []byte) {
	if len(p) < copiedBelow {
		j.text = append(j.text, p...)
		return
	}
	j.cut()
	j.pieces = append(j.pieces, p)
}

// cut ends the piece that grows.
func (j *joined) cut() {
	if j.begun < len(j.text) {
		j.pieces = append(j.pieces, j.text[j.begun:len(j.text):len(j.text)])
		j.begun = len(j.text)
	}
}

func (j *joined) payload(p []byte) {
	j.frame(len(p))
	j.add(p)
}

// ping is WebSocket's own, and the frame of those who do not know it.
func (j *joined) ping() {
	j.text = append(j.text, finalPing, 0)
	j.ended(2)
	j.payload([]byte(`{"type":"ping"}`))
}

// event is an `event` frame, of a subscription's own member and an event's shared ones.
func (j *joined) event(subscription, event []byte) {
	const begin, end = `{"type":"event",`, `}`
	j.frame(len(begin) + len(subscription) + len(event) + len(end))
	j.text = append(append(j.text, begin...), subscription...)
	j.add(event)
	j.text = append(j.text, end...)
}

// events is an `events` frame: several in one, or none, to say how far the subscription is.
func (j *joined) events(subscription []byte, cursor uint64, form fanout.Form, events []*fanout.Event) {
	const begin, place, list, between, end = `{"type":"events",`, `"cursor":`, `,"events":[`, `},{`, `]}`
	var digits [20]byte
	at := strconv.AppendUint(digits[:0], cursor, 10)
	size := len(begin) + len(subscription) + len(place) + len(at) + len(list) + len(end)
	if n := len(events); n > 0 {
		size += 2 + (n-1)*len(between)
	}
	for _, e := range events {
		size += len(bytesOf(e, form))
	}
	j.frame(size)
	j.text = append(append(j.text, begin...), subscription...)
	j.text = append(append(append(j.text, place...), at...), list...)
	for i, e := range events {
		if i == 0 {
			j.text = append(j.text, '{')
		} else {
			j.text = append(j.text, between...)
		}
		j.add(bytesOf(e, form))
	}
	if len(events) > 0 {
		j.text = append(j.text, '}')
	}
	j.text = append(j.text, end...)
}

// bytesOf is what a subscription gets of an event, shared by all who get it.
func bytesOf(e *fanout.Event, form fanout.Form) []byte {
	if form == fanout.Stored {
		return e.Stored
	}
	return e.JSON
}

// appendTextHeader appends the header of an unfragmented, unmasked text frame.
func appendTextHeader(b []byte, size int) []byte {
	switch {
	case size < 126:
		return append(b, finalText, byte(size))
	case size < 1<<16:
		return append(b, finalText, 126, byte(size>>8), byte(size))
	}
	b = append(b, finalText, 127)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(uint64(size)>>shift))
	}
	return b
}
