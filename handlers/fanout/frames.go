package fanout

import (
	"math"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

const (
	keptFrames = 1024
	keptBytes  = 1 << 20
	keptRuns   = 256
)

// frames are the recent provisional frames of a stream: a subscription is a cursor into them as well. One that is slower
// than they are forgotten misses some, and the committed turn brings their text.
type frames struct {
	followers int
	first     uint64 // the number of list[0]
	list      []streams.LiveFrame
	bytes     int
	over      map[string]over // by run
}

// over says that a run's turns up to turn are committed, since a version of the stream.
type over struct {
	turn    int
	version uint64
}

// leave is that one follows them no more.
func (f *frames) leave() {
	if f.followers--; f.followers == 0 {
		f.first, f.list, f.bytes, f.over = f.end(), nil, 0, nil
	}
}

func (f *frames) end() uint64 { return f.first + uint64(len(f.list)) }

func (f *frames) add(frame streams.LiveFrame) {
	if f.late(frame) {
		return
	}
	f.list = append(f.list, frame)
	f.bytes += sizeOf(frame)
	drop := 0
	for len(f.list)-drop > keptFrames || (f.bytes > keptBytes && drop < len(f.list)-1) {
		f.bytes -= sizeOf(f.list[drop])
		f.list[drop] = streams.LiveFrame{}
		drop++
	}
	f.list, f.first = f.list[drop:], f.first+uint64(drop)
}

func sizeOf(f streams.LiveFrame) int { return len(f.Text) + len(f.Data) + 128 }

// ends notes what turn of what run an event ends.
func (f *frames) ends(e *Event, schema *codec.Schema) {
	if f.followers == 0 {
		return
	}
	run, turn := e.endsTurn(schema)
	if run == "" {
		return
	}
	if f.over == nil {
		f.over = map[string]over{}
	}
	if was, ok := f.over[run]; ok && was.turn >= turn {
		return
	}
	if len(f.over) >= keptRuns {
		for other := range f.over {
			delete(f.over, other)
			break
		}
	}
	f.over[run] = over{turn, e.Seq}
	// Whoever was not given them has the committed turn instead; they are not kept for as long as somebody follows.
	drop := 0
	for drop < len(f.list) && f.late(f.list[drop]) {
		f.bytes -= sizeOf(f.list[drop])
		f.list[drop] = streams.LiveFrame{}
		drop++
	}
	if f.first += uint64(drop); drop == len(f.list) {
		f.list = nil
	} else {
		f.list = f.list[drop:]
	}
}

// late reports whether a frame is of a turn that is committed.
func (f *frames) late(frame streams.LiveFrame) bool {
	o, ok := f.over[frame.RunID]
	return ok && frame.Turn <= o.turn
}

// after joins what a subscription that has the stream up to a version may have of the frames from a number on, at most
// about budget bytes of it.
func (f *frames) after(number, version uint64, budget int) (joined []Frame, next uint64, spent int) {
	number = max(number, f.first)
	for ; number < f.end() && spent < budget; number++ {
		frame := f.list[number-f.first]
		if o, ok := f.over[frame.RunID]; ok && frame.Turn <= o.turn && o.version <= version {
			continue
		}
		spent += sizeOf(frame)
		if n := len(joined); n > 0 && joined[n-1].joins(frame) {
			last := &joined[n-1]
			last.Text, last.N = last.Text+frame.Text, frame.N
			continue
		}
		joined = append(joined, Frame{RunID: frame.RunID, Turn: frame.Turn, Attempt: frame.Attempt, N: frame.N, Kind: frame.Kind,
			Offset: frame.Offset, Blocks: frame.Blocks, Text: frame.Text, Data: frame.Data, Trace: frame.Trace})
	}
	return joined, number, spent
}

// joins reports whether a frame goes on exactly where f ends.
func (f *Frame) joins(next streams.LiveFrame) bool {
	return f.Kind == "text" && next.Kind == "text" && f.RunID == next.RunID && f.Turn == next.Turn && f.Attempt == next.Attempt &&
		next.N == f.N+1 && next.Blocks == f.Blocks && next.Offset == f.Offset+len(f.Text) && len(next.Data) == 0
}

// turnsEnd decodes what ends turns.
func turnsEnd(event any) (run string, turn int) {
	switch e := event.(type) {
	case thread.TurnCompleted:
		return e.RunID, e.Turn
	case thread.RunCompleted:
		return e.RunID, math.MaxInt
	case thread.RunFailed:
		return e.RunID, math.MaxInt
	case thread.RunCancelled:
		return e.RunID, math.MaxInt
	}
	return "", 0
}

// endsTurn answers the run and the turn that an event ends; no run: it ends none.
func (e *Event) endsTurn(schema *codec.Schema) (run string, turn int) {
	if e.Stream.Kind() != "thread" {
		return "", 0
	}
	event, err := schema.Decode(e.recorded)
	if err != nil {
		return "", 0 // of a newer release: it ends no turn that this one knows
	}
	return turnsEnd(event)
}
