//go:build typescript

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
)

// TestTypescriptDevice is the conversation of TestARequestBecomesARow with the reference device for Node as the client and
// the executor, in a process of its own: rows in its SQLite file, a note found again by meaning in its LanceDB, questions
// and writes outside a run, and its client's subscription, which holds every event to its chain.
func TestTypescriptDevice(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	models, err := modeltest.Start(modeltest.Playing(offline.New()))
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	p := newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_MODEL_KEY=secret", "CAIRN_MODEL=playing")
	p.start(ctx)
	u := newUser(ctx, t, p)
	n := newNode(t, u)
	n.start(ctx, "--email", u.email)

	made := n.ask(ctx, "Create a task called Buy milk, high priority, due tomorrow")
	rows := n.rows(ctx, "tasks")
	counted := n.ask(ctx, "How many todo tasks do I have?")
	conversed(ctx, t, u, rows, made, counted)

	// The next asks in a process that finds its session, its id and its journal in the file.
	n.end()
	n.start(ctx)
	noted := n.ask(ctx, "Create a note called Compost: layer green and brown waste, keep it moist")
	n.ask(ctx, "Create a note called Taxes: the declaration is due in July")
	found := n.ask(ctx, "Search my notes for brown waste")
	notes := n.rows(ctx, "notes")
	if len(notes) != 2 || notes[0]["title"] != "Compost" || len(noted.Mutations) == 0 || noted.Mutations[0].ID != notes[0]["id"] {
		t.Errorf("the device's notes are %v, and the run changed %v", notes, noted.Mutations)
	}
	n.nearest(notes[0]["id"])
	if !strings.Contains(found.Text, "layer green and brown waste") {
		t.Errorf("the search answered %q", found.Text)
	}
	if index, err := filepath.Glob(filepath.Join(n.db+".lance", "vectors_1536.lance", "data", "*.lance")); err != nil || len(index) == 0 {
		t.Errorf("LanceDB has no vectors on the disk: %v, %v", index, err)
	}
	n.outside(ctx)
	n.followed(ctx)
	n.end()
}

// TestTypescriptDeviceThatIsKilledDoesItsCallOnce kills the device's process when it has done a call, wherever its answer is.
// The next process on its file answers from the journal, and goes on with the request, which was in the outbox.
func TestTypescriptDeviceThatIsKilledDoesItsCallOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	p := newProcess(t)
	p.start(ctx)
	u := newUser(ctx, t, p)
	n := newNode(t, u)
	n.start(ctx, "--email", u.email)
	for round := range 3 {
		title := fmt.Sprintf("Milk %d", round)
		n.say("Create a task called " + title)
		n.until(ctx, func(l line) bool { return l.Type == "did" })
		_ = n.cmd.Process.Kill()
		n.end()
		n.start(ctx)
		// The request is told again under its id, from its beginning to its end.
		n.until(ctx, func(l line) bool { return l.Type == "stream_end" && l.Failure == nil })
		made := slices.DeleteFunc(n.rows(ctx, "tasks"), func(row device.Row) bool { return row["title"] != title })
		if len(made) != 1 {
			t.Errorf("round %d: the device has %d such tasks", round, len(made))
		}
	}
	n.end()
}

// node is a cairn-device on a file that stays the same over restarts.
type node struct {
	t      *testing.T
	u      *user
	script string
	db     string
	thread string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan line
	seen  []line // of every start
}

// line is a line that it wrote: a frame, or what it did.
type line struct {
	device.Frame
	Action string         `json:"action"`
	Answer map[string]any `json:"answer"`
	Event  struct {
		Position uint64 `json:"position"`
	} `json:"event"`
}

func newNode(t *testing.T, u *user) *node {
	t.Helper()
	dir := os.Getenv("CAIRN_TEST_TYPESCRIPT")
	if dir == "" {
		t.Fatal("CAIRN_TEST_TYPESCRIPT must be the folder clients/typescript, installed and built: use make test-typescript")
	}
	return &node{t: t, u: u, script: filepath.Join(dir, "device", "dist", "main.js"), db: filepath.Join(t.TempDir(), "device.db")}
}

// start runs it, and returns when it is connected.
func (n *node) start(ctx context.Context, args ...string) {
	n.t.Helper()
	args = append([]string{n.script, "--url", n.u.p.url(), "--db", n.db, "--timezone", "Europe/Berlin", "--json", "--follow", "--stay"}, args...)
	cmd := exec.Command("node", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "CAIRN_PASSWORD="+password), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	lines := make(chan line, 1<<14) // more than it says in a test: its output must not block it
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(stdout)
		scanner.Buffer(nil, 8<<20)
		for scanner.Scan() {
			var l line
			if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
				n.t.Errorf("the device said %q: %v", scanner.Text(), err)
				continue
			}
			lines <- l
		}
		_ = cmd.Wait() // killed, or asked to end
	}()
	n.cmd, n.stdin, n.lines = cmd, stdin, lines
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range lines { // until its reader has ended
		}
	})
	n.until(ctx, func(l line) bool { return l.Type == "connected" })
}

// end asks it to end, and reads what it still says.
func (n *node) end() {
	n.t.Helper()
	_ = n.cmd.Process.Signal(os.Interrupt)
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			n.t.Fatal("the device does not end")
		case l, open := <-n.lines:
			if !open {
				return
			}
			n.seen = append(n.seen, l)
		}
	}
}

func (n *node) until(ctx context.Context, ok func(line) bool) line {
	n.t.Helper()
	for {
		select {
		case <-ctx.Done():
			n.t.Fatalf("the device did not say what was waited for; its last lines were %+v", n.seen[max(0, len(n.seen)-5):])
		case l, open := <-n.lines:
			if !open {
				n.t.Fatal("the device ended")
			}
			n.seen = append(n.seen, l)
			if ok(l) {
				return l
			}
		}
	}
}

func (n *node) say(message string) {
	n.t.Helper()
	if _, err := io.WriteString(n.stdin, message+"\n"); err != nil {
		n.t.Fatal(err)
	}
}

// ask sends a message in the thread, and answers its end.
func (n *node) ask(ctx context.Context, message string) (r device.Result) {
	n.t.Helper()
	n.say(message)
	n.until(ctx, func(l line) bool {
		switch l.Type {
		case "stream_start":
			r.SessionID, r.RunID = l.SessionID, l.RunID
		case "stream_text":
			r.Text += l.Chunk
		case "failed", "error":
			n.t.Fatalf("%q was refused: %s", message, l.Message)
		}
		return l.Type == "stream_end"
	})
	end := n.seen[len(n.seen)-1]
	if len(end.Failure) > 0 && string(end.Failure) != "null" {
		n.t.Fatalf("%q failed: %s", message, end.Failure)
	}
	r.Mutations, r.Position = end.Mutations, end.Position
	return r
}

// rows reads its file with the Go device, whose format it is.
func (n *node) rows(ctx context.Context, table string) []device.Row {
	n.t.Helper()
	store, err := device.OpenStore(ctx, n.db, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	defer store.Close()
	rows, err := store.Rows(ctx, table)
	if err != nil {
		n.t.Fatal(err)
	}
	return rows
}

// nearest looks whether the newest search of the vectors had that note before all others.
func (n *node) nearest(note any) {
	n.t.Helper()
	for _, l := range slices.Backward(n.seen) {
		if l.Type != "did" || l.Action != "vector_search" {
			continue
		}
		results, _ := l.Answer["results"].([]any)
		if len(results) != 2 || results[0].(map[string]any)["id"] != note {
			n.t.Errorf("the vector search found %v, and not %v first", results, note)
		}
		return
	}
	n.t.Error("no vectors were searched")
}

// outside asks it outside a run, over HTTP: a read, a write, the same write once more.
func (n *node) outside(ctx context.Context) {
	n.t.Helper()
	store, err := device.OpenStore(ctx, n.db, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	id, err := store.Identity(ctx, "")
	if err := errors.Join(err, store.Close()); err != nil {
		n.t.Fatal(err)
	}
	type request struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Answer struct {
			Rows []device.Row `json:"rows"`
			Row  device.Row   `json:"row"`
		} `json:"answer"`
	}
	var asked, wrote request
	filters := map[string]any{"action": "select", "table": "tasks", "filters": map[string]any{"search": "milk"}}
	if _, err := n.u.Do(ctx, "POST", "/api/v1/devices/"+id+"/data-requests", filters, &asked); err != nil {
		n.t.Fatal(err)
	}
	if asked.Status != "completed" || len(asked.Answer.Rows) != 1 || asked.Answer.Rows[0]["title"] != "Buy milk" {
		n.t.Errorf("the device was asked for its tasks, and the record is %+v", asked)
	}
	done := map[string]any{"action": "update", "table": "tasks", "data": map[string]any{
		"id": asked.Answer.Rows[0]["id"], "updates": map[string]any{"status": "done"}}}
	if _, err := n.u.Do(ctx, "POST", "/api/v1/devices/"+id+"/mutations", done, &wrote); err != nil {
		n.t.Fatal(err)
	}
	poll(ctx, n.t, "the write has its outcome", func() bool {
		path := "/api/v1/devices/" + id + "/mutations/" + wrote.ID
		return n.u.Get(ctx, path, &wrote) == nil && wrote.Status != "waiting" && wrote.Status != "offered"
	})
	if rows := n.rows(ctx, "tasks"); wrote.Status != "completed" || wrote.Answer.Row["status"] != "done" || rows[0]["status"] != "done" {
		n.t.Errorf("the write's record is %+v, and the device's tasks are %v", wrote, rows)
	}
}

// followed looks whether its subscription, over all its starts, brought everything that is committed for the user, once and in order. An
// event whose process ended before it asked for the next comes again: that is what its kept cursor promises.
func (n *node) followed(ctx context.Context) {
	n.t.Helper()
	var page struct {
		Data []struct {
			Position uint64 `json:"position"`
		} `json:"data"`
	}
	if err := n.u.Get(ctx, "/api/v1/events?after=0&limit=200", &page); err != nil || len(page.Data) == 0 {
		n.t.Fatalf("%d events, %v", len(page.Data), err)
	}
	last := page.Data[len(page.Data)-1].Position
	brought := func(l line) bool { return l.Type == "event" && l.Event.Position >= last }
	if !slices.ContainsFunc(n.seen, brought) {
		n.until(ctx, brought)
	}
	at := uint64(0)
	for _, l := range n.seen {
		switch {
		case l.Type == "reset":
			n.t.Error("the subscription was reset")
		case l.Type != "event" || l.Event.Position == at && at > 0:
		case l.Event.Position != at+1:
			n.t.Fatalf("position %d came after %d", l.Event.Position, at)
		default:
			at++
		}
	}
	if at < last {
		n.t.Errorf("the subscription brought %d positions of %d", at, last)
	}
	for i, e := range page.Data {
		if e.Position != uint64(i+1) {
			n.t.Fatalf("event %d of the account has position %d", i, e.Position)
		}
	}
}
