package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

// fullDisk starts with a disk that counts as full: users' commands are refused, reads and what runs go on.
func (f *faults) fullDisk(t *testing.T) {
	env := f.p.env
	f.p.env = append(env[:len(env):len(env)], "CAIRN_MIN_FREE=4611686018427387904")
	f.p.start(f.ctx)
	if status, told := f.post(t, "refused", "no room"); status != http.StatusTooManyRequests || told["code"] != "overloaded" {
		t.Errorf("over HTTP a command was answered %d, %v", status, told)
	}
	if _, told := f.answer(f.d.Send(device.Request{Message: "no room", SessionID: f.in})); told == nil || told.Code != "rate_limited" {
		t.Errorf("at the socket a command was answered %v", told)
	}
	var threads struct {
		Threads []map[string]any `json:"threads"`
	}
	if err := f.u.Get(f.ctx, "/api/v1/threads", &threads); err != nil {
		t.Errorf("a read: %v", err)
	}
	close(f.release)
	f.settle(t, "answer slowly", f.slow) // it was accepted before, and goes on
	if _, errs, code := f.ended("doctor"); code != 1 {
		t.Errorf("the doctor ended with %d and %q", code, errs)
	}
	f.p.env = env
	if code := f.p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
	f.p.start(f.ctx)
	f.say(t, "there is room again")
}

// usedID sends another body under the id of the first message, many restarts later, and the same body once more.
func (f *faults) usedID(t *testing.T) {
	status, first := f.post(t, "kept for ever", "over HTTP")
	if status != http.StatusOK {
		t.Fatalf("answered %d, %v", status, first)
	}
	f.said = append(f.said, "over HTTP")
	if code := f.p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
	f.p.start(f.ctx)
	if status, told := f.post(t, "kept for ever", "something else"); status != http.StatusUnprocessableEntity {
		t.Errorf("another body under a used id was answered %d, %v", status, told)
	}
	if status, again := f.post(t, "kept for ever", "over HTTP"); status != http.StatusOK || again["run_id"] != first["run_id"] {
		t.Errorf("the same body was answered %d, %v, at first %v", status, again, first)
	}
	if _, told := f.answer(f.d.Send(device.Request{Message: "something else", SessionID: f.in, RequestID: "id of first"})); told == nil {
		t.Error("another message under the first one's id was accepted")
	}
}

// failingWrite lets the log's files grow no further, as a full disk does: nothing is acknowledged any more, the
// process ends and says why, and the next start has everything that was acknowledged.
func (f *faults) failingWrite(t *testing.T) {
	if !limitFiles(t, f.p.cmd.Process.Pid) {
		return
	}
	lost := f.d.Send(device.Request{Message: "not kept", SessionID: f.in, RequestID: "id of not kept"})
	select {
	case <-f.p.done:
	case <-time.After(20 * time.Second):
		t.Fatal("cairn goes on although it can't write")
	}
	if code := f.p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("cairn ended with %d", code)
	}
	f.p.start(f.ctx)
	f.settle(t, "not kept", lost) // the client repeats it, and now it is kept
}
