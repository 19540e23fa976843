package live

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// earlyFrames is how many provisional frames of an attempt are kept that the log has not announced yet.
const earlyFrames = 256

// story tells a run from its committed events, in order, and from provisional frames, in any order. What
// it tells is what the committed events alone say, whichever frames came: a frame passes only where it
// begins exactly at what was sent of its turn, and the committed turn brings what is missing. It is pure.
type story struct {
	run     string
	channel thread.Channel

	version uint64
	agent   string
	started bool
	ended   bool

	turn, attempt int  // the newest that the log has announced
	open          bool // its frames may pass
	last          int  // the newest N of them
	stuck         bool
	sent          transcript
	early         []streams.LiveFrame

	text      strings.Builder // committed
	blocks    int             // committed
	tables    output.Tables
	mutations []thread.Mutation
}

func newStory(run string, channel thread.Channel) *story {
	return &story{run: run, channel: channel}
}

// begin tells that the run was accepted. A floating run starts when its agent is known.
func (s *story) begin() []Output {
	if s.channel == thread.Floating {
		return nil
	}
	return s.start()
}

// committed takes the next event of the thread; those of other runs say nothing. The last of what it tells says how much
// is committed by then.
func (s *story) committed(version uint64, event any) []Output {
	outputs := s.take(version, event)
	if n := len(outputs); n > 0 && s.sent.empty() {
		outputs[n-1].Committed = &Keep{Text: s.text.Len(), Blocks: s.blocks}
	}
	return outputs
}

func (s *story) take(version uint64, event any) []Output {
	s.version = version
	if s.ended {
		return nil
	}
	switch e := event.(type) {
	case thread.RouteDecided:
		if e.RunID == s.run {
			return s.answers(e.Agent)
		}
	case thread.TurnRequested:
		if e.RunID == s.run {
			return append(s.answers(e.Agent), s.attempts(e.Turn, e.Attempt)...)
		}
	case thread.TurnFailed:
		if e.RunID == s.run {
			return s.drop()
		}
	case thread.TurnCompleted:
		if e.RunID == s.run {
			return append(s.answers(e.Agent), s.completed(e)...)
		}
	case thread.ToolCallRequested:
		s.asked(e.Step)
	case thread.ToolStepRequested:
		s.asked(e.Step)
	case thread.ToolStepCompleted:
		if e.RunID == s.run {
			s.result(e.CallID, e.Step, e.Result, e.Mutations)
		}
	case thread.ToolCallCompleted:
		if e.RunID == s.run {
			s.result(e.CallID, e.Step, e.Result, e.Mutations)
		}
	case thread.LateResultRecorded:
		if thread.RunOf(e.CallID) == s.run {
			s.mutations = append(s.mutations, e.Mutations...)
		}
	case thread.RunCompleted:
		if e.RunID == s.run {
			return s.end(nil)
		}
	case thread.RunFailed:
		if e.RunID == s.run {
			return s.end(&Failure{Code: string(e.Code), Message: e.Reason})
		}
	case thread.RunCancelled:
		if e.RunID == s.run {
			return s.end(cancelled(e.By))
		}
	}
	return nil
}

// provisional takes a frame of what is streaming now.
func (s *story) provisional(f streams.LiveFrame) []Output {
	if s.ended || f.RunID != s.run {
		return nil
	}
	switch cmp.Or(cmp.Compare(f.Turn, s.turn), cmp.Compare(f.Attempt, s.attempt)) {
	case 0:
		if s.open {
			return s.pass(f)
		}
	case 1: // the log will announce it
		if len(s.early) < earlyFrames {
			s.early = append(s.early, f)
		}
	}
	return nil
}

func (s *story) pass(f streams.LiveFrame) []Output {
	if f.N <= s.last {
		// Another worker took the same attempt over and begins anew; what it says may be something else.
		s.stuck = true
	}
	s.last = f.N
	if s.stuck || f.Offset != s.sent.bytes || f.Blocks != s.sent.blocks {
		return nil
	}
	var frame output.Frame
	switch f.Kind {
	case "text":
		frame = output.Frame{Text: f.Text}
	case "block":
		block, data, ok := provisionalBlock(f)
		if !ok {
			return nil
		}
		frame = output.Frame{Block: block, Data: data}
	default:
		return nil
	}
	return s.send(nil, frame)
}

// attempts opens the way for the frames of an attempt, first for those that came before the log said so.
func (s *story) attempts(turn, attempt int) []Output {
	out := s.drop()
	s.turn, s.attempt, s.open = turn, attempt, true
	early := s.early
	s.early = nil
	for _, f := range early {
		out = append(out, s.provisional(f)...)
	}
	return out
}

// completed tells what the turn's committed text has beyond what was sent of it.
func (s *story) completed(e thread.TurnCompleted) []Output {
	frames := s.format(e.Content.Text)
	var out []Output
	rest, ok := s.sent.rest(frames)
	if !ok { // what was sent came from an attempt that was not the one committed
		out = s.drop()
		rest = frames
	}
	for _, frame := range rest {
		out = s.send(out, frame)
	}
	for _, frame := range frames {
		s.text.WriteString(frame.Text)
		if frame.Block != "" {
			s.blocks++
		}
	}
	s.turn, s.attempt, s.open = e.Turn, math.MaxInt, false // what still comes of this turn is too late
	s.clear()
	return out
}

func (s *story) format(text string) []output.Frame {
	if s.channel == thread.Home {
		home := output.NewHome(s.tables.Rows)
		return append(home.Write(text), home.Close()...)
	}
	plain := output.NewPlain()
	return append(plain.Write(text), plain.Close()...)
}

// drop takes back what was sent of a turn that is not committed.
func (s *story) drop() []Output {
	sent := !s.sent.empty()
	s.open = false
	s.clear()
	if !sent {
		return nil
	}
	return []Output{{Kind: OutputRetry, Keep: Keep{Text: s.text.Len(), Blocks: s.blocks}, Version: s.version}}
}

func (s *story) clear() { s.sent, s.last, s.stuck = transcript{}, 0, false }

func (s *story) send(out []Output, f output.Frame) []Output {
	s.sent.add(f)
	if f.Block != "" {
		return append(out, Output{Kind: OutputBlock, Block: f.Block, Data: f.Data, Version: s.version})
	}
	if f.Text == "" {
		return out
	}
	return append(out, Output{Kind: OutputText, Text: f.Text, Version: s.version})
}

func (s *story) answers(agent string) []Output {
	if s.agent == "" {
		s.agent = agent
	}
	return s.start()
}

func (s *story) start() []Output {
	if s.started {
		return nil
	}
	s.started = true
	start := Output{Kind: OutputStart, Version: s.version}
	if domain := domainOf(s.agent); s.channel == thread.Floating && domain != "" {
		return []Output{{Kind: OutputDomain, Text: domain, Version: s.version}, start}
	}
	return []Output{start}
}

// end is told once. A run that ends before it has an agent starts all the same.
func (s *story) end(failure *Failure) []Output {
	out := append(s.start(), s.drop()...)
	s.ended = true
	return append(out, Output{
		Kind: OutputEnd, Text: s.text.String(), Error: failure, Mutations: s.mutations, Version: s.version,
	})
}

func (s *story) asked(step thread.Step) {
	if step.RunID == s.run {
		s.tables.Asked(step.ID(), step.Table)
	}
}

func (s *story) result(call string, step int, r thread.Result, mutations []thread.Mutation) {
	s.mutations = append(s.mutations, mutations...)
	s.tables.Answered(thread.StepID(call, step), r.Device)
}

func cancelled(by string) *Failure {
	if by == "interrupt" {
		return &Failure{Code: "cancelled", Message: "another message took this one's place"}
	}
	return &Failure{Code: "cancelled", Message: "the request was cancelled"}
}

// domainOf is what an agent of the general chat is about.
func domainOf(agent string) string {
	switch agent {
	case "task_agent":
		return "tasks"
	case "project_agent":
		return "projects"
	case "checkpoint_agent":
		return "checkpoints"
	case "note_agent":
		return "notes"
	}
	return ""
}

// provisionalBlock reads a block frame: its type stands in Text, or beside the content in Data.
func provisionalBlock(f streams.LiveFrame) (block string, data json.RawMessage, ok bool) {
	return f.Text, json.RawMessage(f.Data), f.Text != "" && json.Valid(f.Data)
}
