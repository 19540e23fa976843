package live_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/streams"
)

const run = "0d2f3c52-0000-5000-8000-000000000001"

// reader is what a client makes of a story: a retry voids what came since the last committed turn.
type reader struct {
	kept, turn []string // pieces, neighbouring text joined when compared
	starts     int
	ends       int
	domain     string
	end        live.Output
	late       bool // something came after the end, or before the start
}

func (r *reader) take(outputs []live.Output) {
	for _, o := range outputs {
		if r.ends > 0 || (r.starts == 0 && o.Kind != live.OutputStart && o.Kind != live.OutputDomain) {
			r.late = true
		}
		switch o.Kind {
		case live.OutputStart:
			r.starts++
		case live.OutputDomain:
			r.domain = o.Text
		case live.OutputText:
			r.turn = append(r.turn, o.Text)
		case live.OutputBlock:
			r.turn = append(r.turn, "\x00"+o.Block+string(o.Data)+"\x00")
		case live.OutputRetry:
			r.turn = nil
		case live.OutputEnd:
			r.ends++
			r.end = o
		}
	}
}

func (r *reader) commit() { r.kept, r.turn = append(r.kept, r.turn...), nil }

func (r *reader) joined() string { return strings.Join(append(r.kept, r.turn...), "") }

// happening is something that reaches a story: an event, or a provisional frame.
type happening struct {
	event any
	frame *streams.LiveFrame
}

// history makes the committed events of a run and the frames that its workers published, each in its order.
func history(t *rapid.T) (events []any, frames []streams.LiveFrame) {
	rows := json.RawMessage(`{"rows":[{"id":"t1","title":"Buy milk"},{"id":"t2","title":"Call"}]}`)
	events = append(events, thread.RunStarted{RunID: run}, thread.RouteRequested{RunID: run, Attempt: 1})
	if rapid.IntRange(0, 9).Draw(t, "routed") == 0 {
		return append(events, thread.RunCancelled{RunID: run, By: "user"}), nil
	}
	events = append(events, thread.RouteDecided{RunID: run, Attempt: 1, Agent: "task_agent"})
	resolve := func(string, []string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(`{"id":"t1","title":"Buy milk"}`)}
	}
	turns := rapid.IntRange(1, 3).Draw(t, "turns")
	for turn := 1; turn <= turns; turn++ {
		for attempt := 1; ; attempt++ {
			events = append(events, thread.TurnRequested{RunID: run, Turn: turn, Attempt: attempt, Agent: "task_agent"})
			text := modelText(t)
			fails := attempt < 3 && rapid.IntRange(0, 2).Draw(t, "fails") == 0
			workers := 1
			if rapid.IntRange(0, 4).Draw(t, "taken over") == 0 {
				workers = 2
			}
			for w := range workers {
				said := text
				if w < workers-1 || fails {
					said = text[:rapid.IntRange(0, len(text)).Draw(t, "cut off")]
				}
				if w < workers-1 && rapid.Bool().Draw(t, "said otherwise") {
					said = modelText(t)
				}
				frames = append(frames, publish(t, said, turn, attempt, resolve)...)
			}
			if fails {
				events = append(events, thread.TurnFailed{RunID: run, Turn: turn, Attempt: attempt, Class: thread.Truncated})
				if rapid.IntRange(0, 9).Draw(t, "given up") == 0 {
					return append(events, thread.RunFailed{RunID: run, Code: thread.Truncated, Reason: "no"}), frames
				}
				continue
			}
			events = append(events, thread.TurnCompleted{RunID: run, Turn: turn, Attempt: attempt, Agent: "task_agent", Content: thread.TurnContent{Text: text}})
			break
		}
		if turn < turns {
			call := thread.CallID(run, turn, 0)
			events = append(events,
				thread.ToolCallRequested{Step: thread.Step{CallID: call, RunID: run, Number: 1, Table: "tasks", Action: "select"}, Turn: turn},
				thread.ToolCallCompleted{CallID: call, RunID: run, Step: 1, Result: thread.Result{Device: rows},
					Mutations: []thread.Mutation{{Table: "tasks", Action: "insert", ID: fmt.Sprint("t", turn)}}})
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		return append(events, thread.RunCancelled{RunID: run, By: "user"}), frames
	default:
		return append(events, thread.RunCompleted{RunID: run, Turns: turns}), frames
	}
}

func modelText(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"Grüße ", "plain ", `{"type":"text","content":"caf\u00e9 \n ok"}`, `{"type":"entity_ref","entity":"task","ids":["t1"]}`,
		`{"type":"table","headers":["a"],"rows":[["1"]]}`, "end.",
	}), 0, 5).Draw(t, "text")
	return strings.Join(parts, "")
}

// publish is what a worker sends while the model writes.
func publish(t *rapid.T, text string, turn, attempt int, resolve output.Rows) []streams.LiveFrame {
	var frames []streams.LiveFrame
	home := output.NewHome(resolve)
	offset, blocks := 0, 0
	add := func(out []output.Frame) {
		for _, o := range out {
			f := streams.LiveFrame{RunID: run, Turn: turn, Attempt: attempt, N: len(frames) + 1, Offset: offset, Blocks: blocks}
			if o.Block != "" {
				f.Kind, f.Text, f.Data = "block", o.Block, o.Data
				blocks++
			} else {
				f.Kind, f.Text = "text", o.Text
				offset += len(o.Text)
			}
			frames = append(frames, f)
		}
	}
	for len(text) > 0 {
		n := rapid.IntRange(1, len(text)).Draw(t, "delta")
		add(home.Write(text[:n]))
		text = text[n:]
	}
	return frames
}

// mixed lays events and frames into one order that keeps the events', loses frames, and disorders little.
func mixed(t *rapid.T, events []any, frames []streams.LiveFrame) []happening {
	var all []happening
	for len(events)+len(frames) > 0 {
		if len(frames) == 0 || (len(events) > 0 && rapid.Bool().Draw(t, "event next")) {
			all = append(all, happening{event: events[0]})
			events = events[1:]
			continue
		}
		if rapid.IntRange(0, 7).Draw(t, "lost") != 0 {
			all = append(all, happening{frame: &frames[0]})
		}
		frames = frames[1:]
	}
	return all
}

// tell plays what happens to a story that joins at a point: committed events before it come first, frames
// before it never.
func tell(channel thread.Channel, all []happening, join int) *reader {
	s, r := live.NewStory(run, channel), &reader{}
	r.take(s.Begin())
	version := uint64(0)
	for i, h := range all {
		if h.frame != nil {
			if i >= join {
				r.take(s.Provisional(*h.frame))
			}
			continue
		}
		version++
		r.take(s.Committed(version, h.event))
		if _, ok := h.event.(thread.TurnCompleted); ok {
			r.commit()
		}
	}
	return r
}

// TestAnyCutTellsTheSame: whichever provisional frames arrive, in whatever order to the log, and wherever a
// client joins, it has in the end what the committed events alone tell; it starts once and ends once.
func TestAnyCutTellsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, frames := history(t)
		channel := rapid.SampledFrom([]thread.Channel{thread.Home, thread.Home, thread.Floating, thread.Chat}).Draw(t, "channel")
		if channel != thread.Home {
			frames = nil
		}
		want := tell(channel, mixed(t, events, nil), 0)
		all := mixed(t, events, frames)
		got := tell(channel, all, rapid.IntRange(0, len(all)).Draw(t, "join"))
		if got.joined() != want.joined() || got.domain != want.domain {
			t.Fatalf("told\n%q\nwant\n%q", got.joined(), want.joined())
		}
		if got.starts != 1 || got.ends != 1 || got.late {
			t.Fatalf("%d starts, %d ends, out of place: %v", got.starts, got.ends, got.late)
		}
		if len(got.end.Mutations) != len(want.end.Mutations) || got.end.Text != want.end.Text || (got.end.Error == nil) != (want.end.Error == nil) {
			t.Fatalf("ended with %+v, want %+v", got.end, want.end)
		}
	})
}

// TestLiveFramesComeBeforeTheCommit: frames that miss nothing pass at once.
func TestLiveFramesComeBeforeTheCommit(t *testing.T) {
	s, r := live.NewStory(run, thread.Home), &reader{}
	r.take(s.Begin())
	frame := func(n, offset int, text string) {
		r.take(s.Provisional(streams.LiveFrame{RunID: run, Turn: 1, Attempt: 1, N: n, Kind: "text", Offset: offset, Text: text}))
	}
	frame(1, 0, "Hello ") // before the log says that the turn began
	r.take(s.Committed(1, thread.TurnRequested{RunID: run, Turn: 1, Attempt: 1, Agent: "task_agent"}))
	frame(2, 6, "world")
	if r.joined() != "Hello world" {
		t.Fatalf("told %q before the commit", r.joined())
	}
	r.take(s.Committed(2, thread.TurnCompleted{RunID: run, Turn: 1, Attempt: 1, Content: thread.TurnContent{Text: "Hello world!"}}))
	frame(3, 11, "!")
	if r.joined() != "Hello world!" {
		t.Fatalf("told %q after the commit", r.joined())
	}
}

// TestEntitiesComeFromTools: a reference is resolved from the rows that this run's tools returned, never
// from an empty list.
func TestEntitiesComeFromTools(t *testing.T) {
	s, r := live.NewStory(run, thread.Home), &reader{}
	call := thread.CallID(run, 1, 0)
	for i, e := range []any{
		thread.ToolCallRequested{Step: thread.Step{CallID: call, RunID: run, Number: 1, Table: "tasks", Action: "select"}},
		thread.ToolCallCompleted{CallID: call, RunID: run, Step: 1, Result: thread.Result{Device: json.RawMessage(`{"rows":[{"id":"a","title":"A"},{"id":"b","title":"B"}]}`)}},
		thread.TurnCompleted{RunID: run, Turn: 2, Attempt: 1, Content: thread.TurnContent{Text: `{"type":"entity_ref","entity":"task","ids":["b","nope"]}`}},
	} {
		r.take(s.Committed(uint64(i+1), e))
	}
	if got := r.joined(); !strings.Contains(got, `"title":"B"`) || strings.Contains(got, `"title":"A"`) {
		t.Fatalf("told %q", got)
	}
}
