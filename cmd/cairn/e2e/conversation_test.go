package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
)

// TestARequestBecomesARow is the ring, turned once for real: a model behind HTTP that streams and calls tools,
// a device on SQLite, Postgres, a broker on disk.
func TestARequestBecomesARow(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	models, err := modeltest.Start(modeltest.Playing(offline.New()))
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	p := newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_MODEL_KEY=secret", "CAIRN_MODEL=playing")
	p.start(ctx)
	converse(ctx, t, newUser(ctx, t, p))
	for _, r := range models.Requests() {
		if !r.Stream || r.Header.Get("Authorization") != "Bearer secret" || r.Model != "playing" {
			t.Errorf("the model was asked without streaming, key or name: %+v", r)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("cairn ended with %d:\n%s", code, p.said())
	}
}

// converse is the conversation of the tour: a task is made, and counted from the real rows.
func converse(ctx context.Context, t *testing.T, u *user) {
	t.Helper()
	d := u.device(nil)
	made, err := d.Send(device.Request{Message: "Create a task called Buy milk, high priority, due tomorrow"}).Wait(ctx)
	if err != nil || made.Err != nil {
		t.Fatalf("create: %v, %v", err, made.Err)
	}
	rows, err := d.Store().Rows(ctx, "tasks")
	if err != nil {
		t.Fatal(err)
	}
	counted, err := d.Send(device.Request{Message: "How many todo tasks do I have?", SessionID: made.SessionID}).Wait(ctx)
	if err != nil || counted.Err != nil {
		t.Fatalf("count: %v, %v", err, counted.Err)
	}
	conversed(ctx, t, u, rows, made, counted)
}

// conversed judges that conversation: the device's tasks after it, what both requests were told, and what is recorded.
func conversed(ctx context.Context, t *testing.T, u *user, rows []device.Row, made, counted device.Result) {
	t.Helper()
	if len(rows) != 1 || rows[0]["title"] != "Buy milk" || rows[0]["priority"] != "high" || rows[0]["status"] != "todo" || rows[0]["dueDate"] == nil {
		t.Fatalf("the device's tasks are %v", rows)
	}
	if len(made.Mutations) != 1 || made.Mutations[0].ID != rows[0]["id"] {
		t.Errorf("the run says it changed %v, the device has %v", made.Mutations, rows[0]["id"])
	}
	if !strings.Contains(counted.Text, "Buy milk") || !strings.Contains(counted.Text, "1") {
		t.Errorf("the answer is %q", counted.Text)
	}
	entries := u.timeline(ctx, made.SessionID, counted.Position)
	for kind, want := range map[string]int{"message": 2, "assistant": 2, "tool_call": 2, "tool_result": 2, "run_end": 2} {
		if got := count(entries, kind); got < want {
			t.Errorf("the timeline shows %d rows of kind %s, want %d", got, kind, want)
		}
	}
	var run struct {
		Status string           `json:"status"`
		Agent  string           `json:"agent"`
		Calls  []map[string]any `json:"calls"`
	}
	if err := u.Get(ctx, "/api/v1/runs/"+made.RunID, &run); err != nil {
		t.Fatal(err)
	}
	if run.Status != "completed" || run.Agent != "task_agent" || len(run.Calls) != 1 || run.Calls[0]["tool"] != "create_task" {
		t.Errorf("the run's record is %+v", run)
	}
	tail, err := u.p.run(ctx, "events", "tail", "--run", made.RunID, "--last", "0")
	if err != nil || !strings.Contains(tail, "thread.tool_call_completed") || !strings.Contains(tail, "Buy milk") {
		t.Errorf("events tail: %v\n%s", err, tail)
	}
	sealed, err := u.p.run(ctx, "events", "tail", "--run", made.RunID, "--last", "0", "--sealed")
	if err != nil || !strings.Contains(sealed, "[sealed]") || strings.Contains(sealed, "Buy milk") {
		t.Errorf("events tail --sealed: %v\n%s", err, sealed)
	}
}
