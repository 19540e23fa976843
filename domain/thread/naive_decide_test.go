package thread_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// TestDecidesAsTheNaiveThread: whatever commands arrive in whatever order, the decider answers what somebody answers who
// remembers everything and looks it up.
func TestDecidesAsTheNaiveThread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, n := newWorld(), &naive{}
		var sent []thread.Command
		for i := range rapid.IntRange(1, 100).Draw(t, "commands") {
			c := command(t, w, i)
			if i > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 { // late, or repeated, under an id of its own
				c = pick(t, sent, "which")
			}
			sent = append(sent, c)
			want, wantCode := n.decide(c)
			events, no, err := w.do(c)
			if err != nil {
				t.Fatalf("%T: %v", c, err)
			}
			code := ""
			if no != nil {
				code = no.Code
			}
			if diff := cmp.Diff(want, told(events)) + cmp.Diff(wantCode, code); diff != "" {
				t.Fatalf("%+v (-naive +decided):\n%s\nafter\n%s", c, diff, strings.Join(kinds(n.past), "\n"))
			}
			n.past = append(n.past, events...)
		}
	})
}

// prediction is what the naive thread expects of a command, in the words of told.
type prediction struct {
	*naive
	events []string
}

func (p *prediction) say(format string, args ...any) {
	p.events = append(p.events, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// decide is what a command leads to: events, or the code of a rejection.
func (n *naive) decide(c thread.Command) (events []string, code string) {
	p := &prediction{naive: n, events: []string{}}
	_, opens := c.(thread.Open)
	_, posts := c.(thread.PostMessage)
	if !opens && !posts && !n.opened() {
		return p.events, domain.CodeNotFound
	}
	switch c := c.(type) {
	case thread.Open:
		if !n.opened() {
			p.say("Opened")
		}
	case thread.Rename:
		p.say("Titled")
	case thread.PostMessage:
		code = p.post(c)
	case thread.Cancel:
		code = p.cancel(c)
	case thread.DecideRoute:
		if n.routes(c.RunID, c.Attempt) {
			p.routed(c.Agent, c.Fallback)
		}
	case thread.FailRoute:
		p.failRoute(c)
	case thread.CompleteTurn:
		p.complete(c)
	case thread.FailTurn:
		p.failTurn(c.RunID, c.Turn, c.Attempt, c.Class, c.RetryAfter)
	case thread.OfferCall:
		code = p.offer(c)
	case thread.RecordResult:
		code = p.result(c)
	case thread.FailStep:
		code = p.failStep(c)
	case thread.AdvanceCall:
		p.advance(c)
	case thread.ResumeRun:
		p.resume(c)
	case thread.FireTimer:
		p.fire(c.Timer)
	case thread.On: // a target is no wish by itself
	}
	if code != "" {
		return []string{}, code
	}
	return p.events, ""
}

func (p *prediction) post(c thread.PostMessage) string {
	_, known, _ := p.remembered(c.RunID)
	active, busy := p.active()
	switch {
	case c.New && p.opened():
		return domain.CodeConflict
	case !c.New && !p.opened():
		return domain.CodeNotFound
	case known || p.waits(c.RunID):
		return domain.CodeConflict
	case busy && c.OnBusy == thread.Refuse:
		return thread.CodeBusy
	}
	if !p.opened() {
		p.say("Opened")
	}
	if busy && c.OnBusy == thread.Interrupt {
		p.stop(active.RunID, "interrupt")
		busy = false
	}
	if busy {
		if len(p.waiting()) >= thread.MaxQueued {
			return thread.CodeQueueFull
		}
		p.say("MessagePosted queued")
		return ""
	}
	p.say("MessagePosted")
	p.begin(c.RunID)
	return ""
}

func (p *prediction) begin(run string) {
	p.say("RunStarted %s", run)
	p.say("RouteRequested 1")
}

// next begins the run of the oldest message that waits.
func (p *prediction) next() {
	if waiting := p.waiting(); len(waiting) > 0 {
		p.begin(waiting[0].RunID)
	}
}

// stop cancels the active run; a note that is stored and not indexed is indexed a minute later.
func (p *prediction) stop(run, by string) {
	for _, w := range p.open(run) {
		if w.indexing {
			p.say("IndexingFailed %s %s 1m0s", w.step.ID(), thread.RunEnded)
		}
	}
	p.say("RunCancelled %s by %s", run, by)
}

func (p *prediction) cancel(c thread.Cancel) string {
	if r, is := p.active(); is && r.RunID == c.RunID {
		p.stop(c.RunID, "user")
		p.next()
		return ""
	}
	_, known, forgot := p.remembered(c.RunID)
	switch {
	case p.waits(c.RunID):
		p.say("RunCancelled %s by user", c.RunID)
	case known || forgot:
		return thread.CodeRunEnded
	default:
		return domain.CodeNotFound
	}
	return ""
}

func (p *prediction) routed(agent string, fallback bool) {
	if agent == "" {
		agent, fallback = "task_agent", true
	}
	if fallback {
		p.say("RouteDecided %s fallback", agent)
	} else {
		p.say("RouteDecided %s", agent)
	}
	p.say("TurnRequested 1.1")
}

func (p *prediction) failRoute(c thread.FailRoute) {
	if !p.routes(c.RunID, c.Attempt) {
		return
	}
	if ofUse(c.Class) && c.Class != thread.Deadline && c.Attempt < 3 && c.RetryAfter <= 10*time.Minute {
		p.say("RouteFailed %s %v", c.Class, backOff(c.Attempt, c.RetryAfter))
		return
	}
	p.say("RouteFailed %s 0s", c.Class)
	p.routed("", true)
}

func (p *prediction) complete(c thread.CompleteTurn) {
	asked, is := p.thinks(c.RunID, c.Turn, c.Attempt)
	if !is {
		return
	}
	plans, fails := c.Plans, func(class thread.FailureClass) { p.failTurn(c.RunID, c.Turn, c.Attempt, class, 0) }
	if asked.NoTools && c.Content.Text != "" {
		plans = nil
	}
	switch {
	case c.FinishReason == "":
		fails(thread.Truncated)
	case len(plans) == 0 && c.Content.Text == "", asked.NoTools && len(plans) > 0:
		fails(thread.Malformed)
	case len(plans) == 0:
		p.say("TurnCompleted 0 calls")
		p.say("RunCompleted")
		p.next()
	default:
		p.say("TurnCompleted %d calls", len(plans))
		run, _ := p.active()
		open := 0
		for i, plan := range plans {
			id := thread.StepID(thread.CallID(c.RunID, c.Turn, i), 1)
			p.say("ToolCallRequested %s %s", id, plan.Executor)
			switch {
			case plan.Executor == thread.AtOnce:
				p.say("ToolCallFailed %s %s", id, thread.InvalidCall)
			case plan.Executor == thread.OnDevice && run.DeviceID == "":
				p.say("ToolCallFailed %s %s", id, thread.NoDevice)
			default:
				open++
			}
		}
		if open == 0 {
			p.turn(c.RunID, c.Turn+1, 1)
		}
	}
}

// turn asks for another turn; after five with calls it must do without tools. This command's own counts.
func (p *prediction) turn(run string, turn, mine int) {
	rounds := mine
	for _, e := range collect[thread.TurnCompleted](p.past) {
		if e.RunID == run && e.Calls > 0 {
			rounds++
		}
	}
	if rounds >= 5 {
		p.say("TurnRequested %d.1 no tools", turn)
		return
	}
	p.say("TurnRequested %d.1", turn)
}

func (p *prediction) failTurn(run string, turn, attempt int, class thread.FailureClass, after time.Duration) {
	if _, is := p.thinks(run, turn, attempt); !is {
		return
	}
	deadlines := 0
	for _, e := range collect[thread.TurnFailed](p.past) {
		if e.RunID == run && e.Turn == turn && e.Class == thread.Deadline {
			deadlines++
		}
	}
	if ofUse(class) && attempt < 5 && after <= 10*time.Minute && (class != thread.Deadline || deadlines == 0) {
		p.say("TurnFailed %s %v", class, backOff(attempt, after))
		return
	}
	p.say("TurnFailed %s 0s", class)
	p.say("RunFailed %s", class)
	p.next()
}
