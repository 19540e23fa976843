package device

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Stream is a request until its end. It survives reconnects: the request is repeated under its id, and the
// backend begins again with stream_start and the text so far.
type Stream struct {
	Request Request

	mu     sync.Mutex
	frames []Frame // not yet taken by Next
	wake   chan struct{}
	text   strings.Builder
	turn   int // where the turn's text begins, as far as it can be told
	result Result
	ended  bool
}

// Result is a request's end.
type Result struct {
	Text      string
	Blocks    []Block
	Mutations []Mutation
	Domain    string
	SessionID string
	RunID     string
	// Position is a min_position for reads that must show the run's end.
	Position string
	// Err is how it failed: a *RequestError in the backend's words, or that the device was stopped.
	Err error
}

// Block is a stream_block.
type Block struct {
	Type string
	Data json.RawMessage
}

// Send asks. It returns at once; while there is no connection the request waits for one.
func (d *Device) Send(r Request) *Stream {
	if r.Channel == "" {
		r.Channel = Home
		if d.o.Protocol < V3 {
			r.Channel = Chat
		}
	}
	r.RequestID = cmp.Or(r.RequestID, uuid.NewString())
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.open[r.RequestID]; ok {
		return s // the same request, still without an end
	}
	s := &Stream{Request: r, wake: make(chan struct{}, 1)}
	d.open[r.RequestID] = s
	d.order = append(d.order, r.RequestID)
	_ = d.submit(s) // a socket that fails is noticed by its reader, and the request sent again
	return s
}

// Cancel asks the backend to end a request. Its end comes as for any other.
func (d *Device) Cancel(requestID string) error {
	s := d.current()
	if s == nil {
		return errors.New("device: not connected")
	}
	return s.write(map[string]string{"type": "cancel", "request_id": requestID})
}

// submit writes a request, with d.mu held. On a v2 socket one runs at a time, since its frames carry no id.
func (d *Device) submit(s *Stream) error {
	if d.socket == nil {
		return nil
	}
	if d.o.Protocol < V3 {
		if d.running != "" {
			return nil
		}
		d.running = s.Request.RequestID
	}
	return d.socket.write(s.Request.frame())
}

// deliver hands a frame to the request it belongs to.
func (d *Device) deliver(f Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := f.RequestID
	if id == "" && (f.Type == "text_chunk" || f.Type == "final") {
		id = d.running
	}
	s, ok := d.open[id]
	if !ok {
		return
	}
	if !s.take(f) {
		return
	}
	delete(d.open, id)
	d.order = slices.DeleteFunc(d.order, func(other string) bool { return other == id })
	if d.running == id {
		d.running = ""
		if len(d.order) > 0 {
			_ = d.submit(d.open[d.order[0]])
		}
	}
}

// show puts a call among the frames of the request whose run makes it.
func (d *Device) show(f Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.open {
		if id == d.running || f.RunID != "" && s.of(f.RunID) {
			s.take(f)
			return
		}
	}
}

func (s *Stream) of(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result.RunID == run
}

func (d *Device) endAll(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.open {
		s.fail(err)
	}
	d.open, d.order, d.running = map[string]*Stream{}, nil, ""
}

// take folds a frame in, and says whether it was the last.
func (s *Stream) take(f Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Type {
	case "stream_start":
		// Also after a reconnect: the text begins anew.
		s.text.Reset()
		s.turn, s.result.Blocks = 0, nil
		s.result.SessionID, s.result.RunID = cmp.Or(f.SessionID, s.result.SessionID), cmp.Or(f.RunID, s.result.RunID)
	case "tool_call":
		s.turn = s.text.Len() // what follows is another turn's
	case "floating_domain":
		s.result.Domain = f.Domain
	case "stream_text":
		s.text.WriteString(f.Chunk)
	case "text_chunk":
		s.text.WriteString(f.Text)
	case "stream_block":
		if f.BlockType == "retry" {
			s.drop(f.Data)
			break
		}
		s.result.Blocks = append(s.result.Blocks, Block{Type: f.BlockType, Data: f.Data})
	case "stream_end":
		s.result.Mutations, s.result.Err, s.ended = f.Mutations, f.failure(), true
		s.result.RunID, s.result.Position = cmp.Or(f.RunID, s.result.RunID), f.Position
	case "final":
		s.text.Reset()
		s.text.WriteString(f.Response)
		s.result.Err, s.result.Position, s.ended = f.failure(), f.Position, true
	case "error":
		s.result.Err, s.ended = &RequestError{Code: f.Code, Message: f.Message}, true
	}
	s.frames = append(s.frames, f)
	s.signal()
	return s.ended
}

// drop forgets the turn's text after a failed attempt: from the offset that the block names, if it does.
func (s *Stream) drop(data json.RawMessage) {
	var from struct {
		Keep *struct {
			Text   int `json:"text"`
			Blocks int `json:"blocks"`
		} `json:"keep"`
	}
	text := s.text.String()
	keep, blocks := s.turn, len(s.result.Blocks)
	if json.Unmarshal(data, &from) == nil && from.Keep != nil {
		keep, blocks = from.Keep.Text, from.Keep.Blocks
	}
	s.text.Reset()
	s.text.WriteString(text[:max(0, min(keep, len(text)))])
	s.result.Blocks = s.result.Blocks[:max(0, min(blocks, len(s.result.Blocks)))]
}

func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.result.Err = true, err
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next is the next frame, in order. ok is false when there are no more. One goroutine may call it.
func (s *Stream) Next(ctx context.Context) (f Frame, ok bool, err error) {
	for {
		s.mu.Lock()
		if len(s.frames) > 0 {
			f, s.frames = s.frames[0], s.frames[1:]
			s.mu.Unlock()
			return f, true, nil
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return Frame{}, false, nil
		}
		select {
		case <-ctx.Done():
			return Frame{}, false, ctx.Err()
		case <-s.wake:
		}
	}
}

// Wait drains the stream and answers its end; the error is ctx's.
func (s *Stream) Wait(ctx context.Context) (Result, error) {
	for {
		if _, ok, err := s.Next(ctx); err != nil || !ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			r := s.result
			r.Text = s.text.String()
			return r, err
		}
	}
}
