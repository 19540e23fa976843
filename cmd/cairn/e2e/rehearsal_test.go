package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
)

// TestTheRehearsal backs a working installation up, loses it, and restores it elsewhere from the copy and the master key
// alone: who was logged in still is, timelines are the same, who was erased stays erased, and the run that was under way
// rests until a person lets effects go on; then it ends, once.
func TestTheRehearsal(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p := newProcess(t, "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	u := newUser(ctx, t, p)
	gone := api.New(p.url())
	if _, err := gone.Register(ctx, "gone@example.com", "a long enough password"); err != nil {
		t.Fatal(err)
	}
	must(ctx, t, p, "account", "erase", "gone@example.com", "--yes")
	d := u.device(nil)
	done, err := d.Send(device.Request{Message: "Create a task called Before, low priority"}).Wait(ctx)
	if err != nil || done.Err != nil {
		t.Fatal(err, done.Err)
	}
	before := u.timeline(ctx, done.SessionID, done.Position)
	must(ctx, t, p, "effects", "pause")
	open := d.Send(device.Request{Message: "Create a task called Between, low priority"})
	poll(ctx, t, "the run is open", func() bool { return len(effects(ctx, t, p)) == 1 })
	copied := filepath.Join(t.TempDir(), "copy")
	var made struct{ Events, Scopes, Erased int }
	if err := json.Unmarshal([]byte(lastLine(must(ctx, t, p, "backup", copied, "--json"))), &made); err != nil {
		t.Fatal(err)
	}
	if made.Scopes != 2 || made.Erased != 1 || made.Events == 0 {
		t.Errorf("the copy has %+v", made)
	}
	p.kill()

	q := newProcess(t, "CAIRN_LOG_LEVEL=warn")
	q.addr = p.addr // where the clients look for it
	if _, err := q.run(ctx, "restore", copied); err == nil {
		t.Fatal("restored without the master key")
	}
	key, err := os.ReadFile(filepath.Join(p.data, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(q.data, "master.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	said := must(ctx, t, q, "restore", copied)
	if !strings.Contains(said, "cairn effects resume") {
		t.Errorf("the restore says %s", said)
	}
	if out, err := q.run(ctx, "restore", copied); err == nil || !strings.Contains(out, "empty place only") {
		t.Errorf("a second restore says %s (%v)", out, err)
	}
	q.start(ctx)
	if after := u.timeline(ctx, done.SessionID, done.Position); !reflect.DeepEqual(before, after) {
		t.Errorf("the timeline was %v and is %v", before, after)
	}
	if _, err := api.New(q.url()).Login(ctx, "gone@example.com", "a long enough password"); err == nil {
		t.Error("who was erased logs in")
	}
	if found := effects(ctx, t, q); len(found) != 1 {
		t.Errorf("open effects after the restore: %v", found)
	}
	must(ctx, t, q, "effects", "resume")
	ended, err := open.Wait(ctx)
	if err != nil || ended.Err != nil {
		t.Fatal(err, ended.Err)
	}
	for _, title := range []string{"Before", "Between"} {
		if n := titled(ctx, t, d, title); n != 1 {
			t.Errorf("the device has %d tasks called %s", n, title)
		}
	}
	must(ctx, t, q, "restore", copied, "--check")
	if code := q.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
	if out := must(ctx, t, q, "repair"); !strings.Contains(out, "nothing to repair") {
		t.Errorf("the repair of what was restored says %s", out)
	}
}

// must runs a command of the program that must not fail, and answers what it said.
func must(ctx context.Context, t *testing.T, p *process, args ...string) string {
	t.Helper()
	out, err := p.run(ctx, args...)
	if err != nil {
		t.Fatalf("cairn %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// effects are the lines of the open effects.
func effects(ctx context.Context, t *testing.T, p *process) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(must(ctx, t, p, "effects", "list", "--json")) {
		lines = append(lines, line)
	}
	return lines
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
