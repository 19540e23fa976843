package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

// nextRevision is what a release has that changed the projector of threads: one more revision beside this program's.
const nextRevision = `package app

import (
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
)

type changed struct{ projections.Projector }

func (c changed) Revision() int { return c.Projector.Revision() + 1 }

func (c changed) Shape() string {
	text, _, err := migrations.Model(c.Name(), c.Projector.Revision())
	if err != nil {
		panic(err)
	}
	return text
}

func withChanged(all []projections.Projector) []projections.Projector {
	newest := -1
	for i, p := range all {
		if p.Name() == "threads" && (newest < 0 || p.Revision() > all[newest].Revision()) {
			newest = i
		}
	}
	return append(all, changed{all[newest]})
}
`

// changedRelease builds this program with another revision of a projector.
func changedRelease(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(root, "cmd", "cairn", "app", "app.go")
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	const begins = "func Projectors(pool *pgxpool.Pool) []projections.Projector {\n"
	if strings.Count(string(text), begins) != 1 {
		t.Fatal("the list of projectors does not look as this test knows it")
	}
	wrapped := strings.Replace(string(text), begins, begins+"\treturn withChanged(compiled(pool))\n}\n\nfunc compiled(pool *pgxpool.Pool) []projections.Projector {\n", 1)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		list: filepath.Join(dir, "app.go"),
		filepath.Join(root, "cmd", "cairn", "app", "changed.go"): filepath.Join(dir, "changed.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"app.go": wrapped, "changed.go": source, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "cairn")
	execute(t, root, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, "./cmd/cairn")
	return out
}

// TestADeployWithAChangedProjectorRebuildsByItself: the release serves the generation that was there from its start on, fills
// the new one beside it, and reads it when it is verified; meanwhile no read fails. The release before refuses the new
// generation in words, and serves after a rollback.
func TestADeployWithAChangedProjectorRebuildsByItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	release := changedRelease(t, nextRevision)
	// So slow that reads come in between.
	p := newProcess(t, "CAIRN_LOG_LEVEL=info", "CAIRN_REBUILD_RATE=25")
	p.start(ctx)
	u := newUser(ctx, t, p)
	d := u.device(nil)
	var thread string
	for range 6 {
		made, err := d.Send(device.Request{Message: "Create a task called Buy milk", SessionID: thread}).Wait(ctx)
		if err != nil || made.Err != nil {
			t.Fatal(err, made.Err)
		}
		thread = made.SessionID
	}
	var before string
	poll(ctx, t, "the last run is shown as done", func() bool {
		before = threadNow(ctx, t, u, thread)
		return strings.Contains(before, `"active_run":null`)
	})
	first, _ := generationsOf(ctx, t, p, "threads")
	runs, _ := generationsOf(ctx, t, p, "runs")
	p.end()

	p.program = release
	p.start(ctx)
	reads, seen := 0, map[string]bool{}
	poll(ctx, t, "the new revision is read", func() bool {
		now := threadNow(ctx, t, u, thread)
		if reads++; now != before {
			t.Fatalf("the thread was %s, and is %s", before, now)
		}
		live, states := generationsOf(ctx, t, p, "threads")
		for _, s := range states {
			seen[s] = true
		}
		return live == first+1
	})
	if !seen["filling"] || reads < 3 {
		t.Errorf("%d reads came in between, and the new generation was seen as %v", reads, seen)
	}
	if live, _ := generationsOf(ctx, t, p, "runs"); live != runs {
		t.Errorf("runs did not change, and generation %d is read", live)
	}
	if now := threadNow(ctx, t, u, thread); now != before {
		t.Errorf("after the swap the thread is %s; it was %s", now, before)
	}
	p.end()

	p.program = ""
	p.launch()
	select {
	case <-p.done:
	case <-ctx.Done():
		t.Fatal("the release before did not end")
	}
	if p.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(p.said(), "cairn projections rollback threads") {
		t.Errorf("the release before ended with %d:\n%s", p.cmd.ProcessState.ExitCode(), p.said())
	}
	p.program = release
	p.start(ctx)
	if out, err := p.run(ctx, "projections", "rollback", "threads"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.end()
	p.program = ""
	p.start(ctx)
	if now := threadNow(ctx, t, u, thread); now != before {
		t.Errorf("the release before shows %s; it was %s", now, before)
	}
}

// threadNow is a thread as REST shows it.
func threadNow(ctx context.Context, t *testing.T, u *user, id string) string {
	t.Helper()
	var thread json.RawMessage
	if err := u.Get(ctx, "/api/v1/threads/"+id, &thread); err != nil {
		t.Fatal(err)
	}
	return string(thread)
}

// generationsOf are the one of a read model that is read, and the states of all.
func generationsOf(ctx context.Context, t *testing.T, p *process, name string) (live int, states []string) {
	t.Helper()
	out, err := p.run(ctx, "projections", "status", name, "--json")
	var status struct {
		Generations []struct {
			Generation int
			State      string
			Live       bool
		}
	}
	if err != nil || json.Unmarshal([]byte(out), &status) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, g := range status.Generations {
		if states = append(states, g.State); g.Live {
			live = g.Generation
		}
	}
	return live, states
}
