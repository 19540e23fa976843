package thread

import (
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
)

// IndexNote is the server step that embeds a note after a device stored it.
const IndexNote = "index_note"

// MaxResult is the size of a result that is kept, in bytes.
const MaxResult = 1 << 20

// indexAfter are the waits before the attempts to index a note in the background, the first after the
// call itself failed to.
func indexAfter(attempt int) time.Duration {
	waits := [...]time.Duration{FirstIndexing, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}
	if attempt >= len(waits) {
		return 0
	}
	return waits[attempt]
}

// requestCall begins a tool call. One that the planner has answered, or that has no device, ends at once.
func (d *decision) requestCall(run string, turn, index int, plan Plan, payload Payload) {
	s := Step{CallID: CallID(run, turn, index), RunID: run, Number: 1}.planned(plan, d.state.run.device)
	d.emit(ToolCallRequested{Step: s, Turn: turn, Index: index, Payload: payload})
	p := pending{call: call{id: s.CallID, tool: s.Tool, step: stepOf(s)}, device: d.state.run.device}
	switch {
	case s.Executor == OnDevice && s.DeviceID == "":
		d.fail(p, NoDevice, 0, Result{})
	case s.Executor == OnServer, s.Executor == OnDevice:
	default:
		d.fail(p, InvalidCall, 0, Result{Text: payload.Answer})
	}
}

func (s Step) planned(p Plan, device string) Step {
	s.Tool, s.Executor, s.Action, s.Table, s.Then, s.Repeatable = p.Tool, p.Executor, p.Action, p.Table, p.Then, p.Repeatable
	if s.Tool == "" {
		s.Tool = "unknown"
	}
	if s.Executor == OnDevice {
		s.DeviceID = device
	}
	return s
}

// offerCall is told before a device step is sent. See OfferCall.
func (d *decision) offerCall(c OfferCall) error {
	p, open := d.state.pending(c.CallID, c.Step)
	switch {
	case !open && d.existed(c.CallID):
		return domain.Reject(CodeCallEnded, "the step has an outcome")
	case !open || p.call.step.executor != OnDevice:
		return domain.Reject(domain.CodeNotFound, "there is no such step")
	case p.device != c.DeviceID:
		return domain.Reject(CodeWrongDevice, "the step is bound to another device")
	case p.call.step.started && !safety.Off(safety.StartEffect):
		return domain.Reject(CodeStarted, "the step was begun and must not be sent again")
	case p.call.step.offered && !c.Started:
		return nil
	}
	d.emit(ToolCallOffered{
		CallID: c.CallID, RunID: RunOf(c.CallID), Step: c.Step, DeviceID: c.DeviceID, Started: c.Started, Background: p.background,
	})
	return nil
}

// resumeRun says what the run waits with for its device. See ResumeRun.
func (d *decision) resumeRun(c ResumeRun) {
	r := d.state.run
	if r == nil || r.id != c.RunID || r.device != c.DeviceID || c.DeviceID == "" {
		return
	}
	var steps []string
	for _, open := range r.open {
		if open.step.executor == OnDevice && !open.step.offered {
			steps = append(steps, StepID(open.id, open.step.number))
		}
	}
	if len(steps) > 0 {
		d.emit(RunResumed{RunID: r.id, DeviceID: r.device, Steps: steps})
	}
}

// existed reports whether there was such a call, as far as the thread remembers: of a run that it has
// forgotten, every call may have existed.
func (d *decision) existed(call string) bool {
	e, known := d.state.remembered(RunOf(call))
	if known {
		return e.had(call)
	}
	_, waits := d.state.queued(RunOf(call))
	return d.state.forgot && !waits
}

// recordResult takes a device's answer, once; later ones are only noted. See RecordResult.
func (d *decision) recordResult(c RecordResult) error {
	switch c.Failure {
	case "", DeviceError, BadResult, ResultTooLarge:
	default:
		return domain.Reject(domain.CodeInvalid, "a device's answer fails with device_error, bad_result or result_too_large")
	}
	if size := int64(len(c.Result.Device) + len(c.Result.Text)); size > MaxResult {
		c.Failure, c.Bytes, c.Result = ResultTooLarge, size, Result{}
	}
	p, open := d.state.pending(c.CallID, c.Step)
	if !open {
		return d.lateResult(c)
	}
	switch {
	case p.call.step.executor != OnDevice:
		return domain.Reject(domain.CodeNotFound, "there is no such step on a device")
	case p.device != c.DeviceID:
		return domain.Reject(CodeWrongDevice, "the step is bound to another device")
	case c.Failure != "":
		d.fail(p, c.Failure, c.Bytes, c.Result)
	case p.background:
		d.emit(p.stepCompleted(c.Mutations, c.Result))
		d.emit(IndexingEnded{CallID: c.CallID, Step: c.Step, OK: true})
	case p.call.step.then == "":
		d.emit(ToolCallCompleted{CallID: c.CallID, RunID: RunOf(c.CallID), Step: c.Step, Mutations: c.Mutations, Result: c.Result})
	default:
		d.emit(p.stepCompleted(c.Mutations, c.Result))
		next := Step{CallID: c.CallID, RunID: RunOf(c.CallID), Number: c.Step + 1, Tool: p.call.tool, Executor: OnServer, Then: p.call.step.then}
		d.emit(ToolStepRequested{Step: next})
	}
	d.goOn()
	return nil
}

func (d *decision) lateResult(c RecordResult) error {
	if !d.existed(c.CallID) || c.Step < 1 {
		return domain.Reject(domain.CodeNotFound, "there is no such step")
	}
	if e, known := d.state.remembered(RunOf(c.CallID)); known && e.device != c.DeviceID {
		return domain.Reject(CodeWrongDevice, "the step is bound to another device")
	}
	d.emit(LateResultRecorded{CallID: c.CallID, Step: c.Step, DeviceID: c.DeviceID, Mutations: c.Mutations, Result: c.Result})
	return nil
}

func (p pending) stepCompleted(mutations []Mutation, result Result) ToolStepCompleted {
	return ToolStepCompleted{
		CallID: p.call.id, RunID: RunOf(p.call.id), Step: p.call.step.number, Mutations: mutations, Result: result,
	}
}

// failStep ends a step that got no answer. See FailStep.
func (d *decision) failStep(c FailStep) error {
	switch c.Reason {
	case OutcomeUnknown, ServerError, NoDevice:
	default:
		return domain.Reject(domain.CodeInvalid, "a step fails with outcome_unknown, server_error or no_device")
	}
	p, open := d.state.pending(c.CallID, c.Step)
	if !open {
		return nil
	}
	if c.Reason == OutcomeUnknown && !p.call.step.started {
		return domain.Reject(CodeNotStarted, "the step was not begun")
	}
	d.fail(p, c.Reason, 0, c.Result)
	d.goOn()
	return nil
}

// advanceCall takes the outcome of a server step. See AdvanceCall.
func (d *decision) advanceCall(c AdvanceCall) {
	p, open := d.state.pending(c.CallID, c.Step)
	if !open || p.call.step.executor != OnServer {
		return
	}
	run, next := RunOf(c.CallID), c.Next
	switch {
	case c.NotIndexed && p.call.indexing:
		d.fail(p, ServerError, 0, c.Content.Result)
	case next == nil && p.background:
		d.emit(p.stepCompleted(nil, c.Content.Result))
		d.emit(IndexingEnded{CallID: c.CallID, Step: c.Step, OK: true})
	case next == nil:
		d.emit(ToolCallCompleted{CallID: c.CallID, RunID: run, Step: c.Step, Result: c.Content.Result})
	case next.Executor != OnDevice || !p.background && c.Step >= MaxSteps:
		d.fail(p, ServerError, 0, c.Content.Result)
	case p.device == "":
		d.fail(p, NoDevice, 0, Result{})
	default:
		d.emit(p.stepCompleted(nil, c.Content.Result))
		s := Step{CallID: c.CallID, RunID: run, Number: c.Step + 1, Background: p.background}.planned(*next, p.device)
		d.emit(ToolStepRequested{Step: s, Payload: c.Content.Payload})
	}
	d.goOn()
}

// fail ends a step without a result. That ends its call with an error, unless the call's work was done
// and only the index is missing: then the call completes, and the indexing goes on in the background.
func (d *decision) fail(p pending, reason FailureReason, bytes int64, result Result) {
	id, run, number := p.call.id, RunOf(p.call.id), p.call.step.number
	switch {
	case p.background:
		d.indexLater(p.call, IndexingFailed{
			CallID: id, RunID: run, Step: number, Reason: reason, RetryAfter: indexAfter(p.attempt), Result: result,
		})
	case p.call.indexing:
		d.indexLater(p.call, ToolCallCompleted{CallID: id, RunID: run, Step: number, NotIndexed: true, Result: result})
	default:
		if result.Text == "" && result.Device == nil {
			result.Text = reason.words()
		}
		d.emit(ToolCallFailed{CallID: id, RunID: run, Step: number, Reason: reason, Bytes: bytes, Result: result})
	}
}

// indexLater postpones the indexing of a call, and gives it up where no attempt is left.
func (d *decision) indexLater(c call, failed Event) {
	d.emit(failed)
	f, background := failed.(IndexingFailed)
	if background && f.RetryAfter == 0 || len(d.state.indexing) > MaxIndexing {
		d.emit(IndexingEnded{CallID: c.id, Step: c.step.number})
	}
}

// words is what the model reads where nobody else has said it.
func (r FailureReason) words() string {
	switch r {
	case NoDevice:
		return "no device of the user is known, so this can't be done now"
	case DeviceOffline:
		return "the device did not come online within 24 hours"
	case TimedOut:
		return "the device did not answer within 30 seconds; it may have done it: look before repeating"
	case OutcomeUnknown:
		return "the connection to the device was lost while it worked; it may have done it: look before repeating"
	case ResultTooLarge:
		return "the result is larger than 1 MiB: ask for less, with filters or a limit"
	case BadResult:
		return "the device's answer could not be read"
	case DeviceError:
		return "the device failed to do it"
	case InvalidCall:
		return "the call is not valid"
	default:
		return "it could not be done because of an error on the server"
	}
}
