package thread

import (
	"strings"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain"
)

// The codes of a thread's rejections, beside those of package domain.
const (
	CodeBusy        = "busy"         // a run is active, and the message asked not to wait
	CodeQueueFull   = "queue_full"   // MaxQueued messages wait already
	CodeRunEnded    = "run_ended"    // there is nothing left to cancel
	CodeStarted     = "started"      // the step was begun and must not be sent again
	CodeNotStarted  = "not_started"  // an unknown outcome needs a beginning
	CodeCallEnded   = "call_ended"   // the step has an outcome
	CodeWrongDevice = "wrong_device" // the step is bound to another device
)

// MaxMessage is the size of a message and its history together, in bytes.
const MaxMessage = 1 << 20

// decision collects events; the state follows each of them.
type decision struct {
	state  State
	events []Event
}

func (d *decision) emit(e Event) {
	d.events = append(d.events, e)
	d.state = d.state.Evolve(e)
}

// Decide is what a command leads to. A command about something that is over changes nothing: it is
// accepted without events, or refused where its comment says so.
func (s State) Decide(c Command) ([]Event, error) {
	d := &decision{state: s}
	err := d.decide(c)
	if err != nil {
		return nil, err
	}
	return d.events, nil
}

func (d *decision) decide(c Command) error {
	_, opens := c.(Open)
	_, posts := c.(PostMessage)
	if !opens && !posts && !d.state.opened() {
		return domain.Reject(domain.CodeNotFound, "there is no such thread")
	}
	switch c := c.(type) {
	case Open:
		return d.open(c)
	case PostMessage:
		return d.postMessage(c)
	case Rename:
		return d.rename(c)
	case Cancel:
		return d.cancel(c)
	case DecideRoute:
		d.decideRoute(c)
		return nil
	case FailRoute:
		d.failRoute(c)
		return nil
	case CompleteTurn:
		d.completeTurn(c)
		return nil
	case FailTurn:
		d.failTurn(c)
		return nil
	case OfferCall:
		return d.offerCall(c)
	case RecordResult:
		return d.recordResult(c)
	case FailStep:
		return d.failStep(c)
	case AdvanceCall:
		d.advanceCall(c)
		return nil
	case ResumeRun:
		d.resumeRun(c)
		return nil
	case FireTimer:
		d.fireTimer(c)
		return nil
	case On: // a target is no wish by itself
	}
	return domain.Reject(domain.CodeInvalid, "a thread knows no such command")
}

func (d *decision) open(c Open) error {
	if !c.Target().Valid() {
		return domain.Reject(domain.CodeInvalid, "the thread's id is malformed")
	}
	if !d.state.opened() {
		d.emit(Opened{})
	}
	return nil
}

func (d *decision) rename(c Rename) error {
	if n := utf8.RuneCountInString(c.Title.Text); !utf8.ValidString(c.Title.Text) || strings.TrimSpace(c.Title.Text) == "" || n > 200 {
		return domain.Reject(domain.CodeInvalid, "a title has 1 to 200 characters")
	}
	d.emit(Titled{Title: c.Title})
	return nil
}

func (d *decision) postMessage(c PostMessage) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case c.New && d.state.opened():
		return domain.Reject(domain.CodeConflict, "the thread exists already")
	case !c.New && !d.state.opened():
		return domain.Reject(domain.CodeNotFound, "there is no such thread")
	}
	_, waits := d.state.queued(c.RunID)
	if _, known := d.state.remembered(c.RunID); known || waits {
		return domain.Reject(domain.CodeConflict, "the run exists already")
	}
	active := d.state.run
	queue := false
	if active != nil {
		switch c.OnBusy {
		case Refuse:
			return domain.Reject(CodeBusy, "another run is active")
		case Interrupt:
		default:
			if queue = true; len(d.state.waiting) >= MaxQueued {
				return &domain.Rejection{
					Code: CodeQueueFull, Reason: "too many messages wait for the active run",
					Numbers: map[string]int64{"limit": MaxQueued},
				}
			}
		}
	}
	if !d.state.opened() {
		d.emit(Opened{})
	}
	if active != nil && !queue {
		d.stop(active.id, "interrupt")
	}
	d.emit(MessagePosted{
		RunID: c.RunID, Channel: c.Channel, Queued: queue, DeviceID: c.DeviceID, Timezone: c.Timezone, Focus: c.Focus, Content: c.Content,
	})
	if !queue {
		d.start(c.RunID)
	}
	return nil
}

// check refuses what no edge should let through.
func (c PostMessage) check() error {
	size := len(c.Content.Text) + len(c.Content.ProjectID)
	valid := utf8.ValidString(c.Content.Text) && utf8.ValidString(c.Content.ProjectID)
	for _, said := range c.Content.History {
		size += len(said.Role) + len(said.Content)
		valid = valid && utf8.ValidString(said.Content)
	}
	switch {
	case !c.Target().Valid():
		return domain.Reject(domain.CodeInvalid, "the thread's id is malformed")
	case !domain.NewStream("run", c.RunID).Valid() || len(c.RunID) > 64:
		return domain.Reject(domain.CodeInvalid, "the run's id is malformed")
	case c.DeviceID != "" && !domain.NewStream("device", c.DeviceID).Valid():
		return domain.Reject(domain.CodeInvalid, "the device's id is malformed")
	case !c.Channel.valid():
		return domain.Reject(domain.CodeInvalid, "unknown channel")
	case c.OnBusy != "" && c.OnBusy != Queue && c.OnBusy != Refuse && c.OnBusy != Interrupt:
		return domain.Reject(domain.CodeInvalid, "on_busy is queue, refuse or interrupt")
	case len(c.Timezone) > 64:
		return domain.Reject(domain.CodeInvalid, "the time zone's name is too long")
	case c.Focus != nil && !c.Focus.valid():
		return domain.Reject(domain.CodeInvalid, "a floating request is about a task, project, note or checkpoint")
	case !valid:
		return domain.Reject(domain.CodeInvalid, "the message is not valid UTF-8")
	case strings.TrimSpace(c.Content.Text) == "":
		return domain.Reject(domain.CodeInvalid, "the message is empty")
	case size > MaxMessage:
		return &domain.Rejection{
			Code: domain.CodeTooLarge, Reason: "message and history together are too large",
			Numbers: map[string]int64{"bytes": int64(size), "limit": MaxMessage},
		}
	}
	return nil
}

func (c Channel) valid() bool {
	switch c {
	case Chat, Home, Floating, HTTP:
		return true
	default:
		return false
	}
}

func (f Focus) valid() bool {
	switch f.Type {
	case "task", "project", "note", "checkpoint":
		return f.ID == "" || IsRowID(f.ID)
	default:
		return false
	}
}

func (d *decision) cancel(c Cancel) error {
	if d.state.run != nil && d.state.run.id == c.RunID {
		d.stop(c.RunID, "user")
		d.startNext()
		return nil
	}
	if _, waits := d.state.queued(c.RunID); waits {
		d.emit(RunCancelled{RunID: c.RunID, By: "user"})
		return nil
	}
	if _, known := d.state.remembered(c.RunID); known || d.state.forgot {
		return domain.Reject(CodeRunEnded, "the run has ended already")
	}
	return domain.Reject(domain.CodeNotFound, "there is no such run")
}

// stop cancels the active run. A note that was stored and not yet indexed is indexed in the background.
func (d *decision) stop(id, by string) {
	for _, c := range d.state.run.open {
		if c.indexing {
			d.indexLater(c, IndexingFailed{CallID: c.id, RunID: id, Step: c.step.number, Reason: RunEnded, RetryAfter: FirstIndexing})
		}
	}
	d.emit(RunCancelled{RunID: id, By: by})
}

// start begins the run of a message that waits.
func (d *decision) start(id string) {
	w, ok := d.state.queued(id)
	if !ok {
		return
	}
	d.emit(RunStarted{
		RunID: w.run, Channel: w.channel, DeviceID: w.device, Timezone: w.zone, Focus: w.focus, MessageVersion: w.version,
	})
	d.emit(RouteRequested{RunID: w.run, Attempt: 1})
}

func (d *decision) startNext() {
	if d.state.run == nil && len(d.state.waiting) > 0 {
		d.start(d.state.waiting[0].run)
	}
}
