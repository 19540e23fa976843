package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// TestARunThatWaitsGoesOnWhenItsDeviceComes: a message over HTTP needs a device that is away; its run waits. When the
// device comes back, no process runs the policies; the run waits on. The process that begins to run them then finds
// its place, sees that the device was seen, and resumes the run, whose call another process offers, once.
func TestARunThatWaitsGoesOnWhenItsDeviceComes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	brokers := kafkatest.Broker(t)
	env := outside(brokers, 2, pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault), bytes.Repeat([]byte{7}, 32))
	front := serve(t, env, "api,gateway")
	back := serve(t, env, "writer,projector,effects")
	policies := serve(t, env, "policies")
	for _, p := range []*process{front, back, policies} {
		p.ready(ctx)
	}
	u := newUser(ctx, t, &process{t: t, addr: front.addr})
	id, db := uuid.NewString(), filepath.Join(t.TempDir(), "device.db")
	leave := visit(ctx, t, u, id, db)
	poll(ctx, t, "the device was seen", func() bool { return strings.Contains(tail(ctx, t, env), "device.seen") })
	leave()
	policies.kill()

	var asking sync.WaitGroup
	var failed error
	asking.Go(func() {
		body := map[string]string{"message": "Create a task called Buy milk", "device_id": id}
		_, failed = u.Do(ctx, http.MethodPost, "/api/v1/chat", body, nil)
	})
	var run struct {
		Status string `json:"status"`
		Answer string `json:"answer"`
	}
	var threads struct {
		Data []struct {
			ActiveRun *string `json:"active_run"`
		} `json:"data"`
	}
	runID := ""
	waits := func() bool {
		if err := u.Get(ctx, "/api/v1/threads", &threads); err != nil || len(threads.Data) == 0 || threads.Data[0].ActiveRun == nil {
			return false
		}
		runID = *threads.Data[0].ActiveRun
		return u.Get(ctx, "/api/v1/runs/"+runID, &run) == nil && run.Status == "waiting"
	}
	poll(ctx, t, "the run waits", waits)

	leave = visit(ctx, t, u, id, db)
	defer leave()
	poll(ctx, t, "the device was seen again", func() bool { return strings.Count(tail(ctx, t, env), "device.seen") == 2 })
	if !waits() {
		t.Fatalf("the run is %s although nobody resumed it", run.Status)
	}
	serve(t, env, "policies").ready(ctx)
	poll(ctx, t, "the run completed", func() bool { return u.Get(ctx, "/api/v1/runs/"+runID, &run) == nil && run.Status == "completed" })
	if asking.Wait(); failed != nil || !strings.Contains(run.Answer, "Buy milk") {
		t.Errorf("the request ended with %v, the run with %q", failed, run.Answer)
	}
	var types []string
	for line := range strings.Lines(tail(ctx, t, env)) {
		for _, name := range []string{"thread.tool_call_requested", "thread.run_resumed", "thread.tool_call_offered", "thread.run_completed"} {
			if strings.Contains(line, name) {
				types = append(types, strings.TrimPrefix(name, "thread."))
			}
		}
	}
	if got := strings.Join(types, " "); got != "tool_call_requested run_resumed tool_call_offered run_completed" {
		t.Errorf("the run went %s", got)
	}
}

// visit is a device that is here until leave is called.
func visit(ctx context.Context, t *testing.T, u *user, id, db string) (leave func()) {
	t.Helper()
	store, err := device.OpenStore(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.New(device.Options{URL: u.p.url(), Token: u.Token, DeviceID: id, Name: "test", Timezone: "Europe/Berlin", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	here, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(here) })
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
		store.Close()
	})
}

// tail is the log as `cairn events tail` prints it.
func tail(ctx context.Context, t *testing.T, env []string) string {
	t.Helper()
	out, err := command(ctx, env, "events", "tail", "--sealed", "--last", "0")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// command runs a command of the program.
func command(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
