package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
)

// faults is one installation that goes through everything an operator may meet.
type faults struct {
	ctx context.Context //nolint:containedctx // the test's
	p   *process
	u   *user
	d   *device.Device

	held    chan struct{} // a model call that waits has arrived
	release chan struct{} // closed when it may go on

	slow *device.Stream // a request that the model holds
	said []string       // every message that was accepted, in the thread
	in   string         // the thread
	last string         // the greatest position
}

// TestFaults takes one installation through the faults that an operator may meet, one after the other: whatever
// happens, at its end the thread holds each message that was accepted once, with its answer, and nothing else.
func TestFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	f := &faults{ctx: ctx, held: make(chan struct{}, 1), release: make(chan struct{})}
	models, err := modeltest.Start(f.model)
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	f.p = newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_LOG_LEVEL=warn", "CAIRN_COMMAND_RATE=1000", "CAIRN_COMMAND_BURST=1000")
	f.p.start(ctx)
	f.u = newUser(ctx, t, f.p)
	f.d = f.u.device(nil)
	f.say(t, "first")
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"one e-mail registered twice at once", f.registeredTwice},
		{"commands with wrong flags", f.wrongFlags},
		{"every command prints JSON", f.printsJSON},
		{"a second process on the data directory", f.secondProcess},
		{"Postgres killed during requests", f.postgresKilled},
		{"Postgres stopped during requests", f.postgresStopped},
		{"told to end during requests", f.toldToEnd},
		{"a data directory of a newer version", f.newerData},
		{"a taken port", f.portTaken},
		{"a data directory that can't be written", f.notWritable},
		{"a missing master key", f.keyMissing},
		{"a wrong master key", f.keyWrong},
		{"a lost vault beside an old log", f.vaultLost},
		{"a full disk", f.fullDisk},
		{"another body under a used id, after restarts", f.usedID},
		{"a write that fails", f.failingWrite},
		{"a Postgres that outlived its process", f.orphan},
		{"nothing was lost or repeated", f.complete},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatal("what follows needs an installation that works")
		}
	}
	if code := f.p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
}

// model answers at once, but for messages that ask it to be slow.
func (f *faults) model(ctx context.Context, r modeltest.Request) modeltest.Reply {
	if len(r.Tools) == 0 {
		return modeltest.Text("note_agent")
	}
	if strings.Contains(r.Last("user"), "slowly") {
		select {
		case f.held <- struct{}{}:
		default:
		}
		select {
		case <-f.release:
		case <-ctx.Done():
		}
	}
	return modeltest.Text("You said: " + r.Last("user"))
}

// say posts a message over the socket and waits for its answer.
func (f *faults) say(t *testing.T, message string) {
	t.Helper()
	f.settle(t, message, f.d.Send(device.Request{Message: message, SessionID: f.in, RequestID: "id of " + message}))
}

// settle waits for a request's answer. One that is told to try again does, under its id, as clients do.
func (f *faults) settle(t *testing.T, message string, s *device.Stream) {
	t.Helper()
	r, told := f.answer(s)
	for told != nil && (told.Code == "unavailable" || told.Code == "outcome_unknown") {
		t.Logf("%q was told to try again: %s", message, told.Message)
		r, told = f.answer(f.d.Send(s.Request))
	}
	if r.Err != nil || r.Text != "You said: "+message {
		t.Fatalf("%q was answered %q, %v", message, r.Text, r.Err)
	}
	f.in, f.last = r.SessionID, later(f.last, r.Position)
	f.said = append(f.said, message)
}

func (f *faults) answer(s *device.Stream) (device.Result, *device.RequestError) {
	r, err := s.Wait(f.ctx)
	if err != nil {
		r.Err = err
	}
	var told *device.RequestError
	errors.As(r.Err, &told)
	return r, told
}

// during has requests go out all the time while fault happens, and waits for all their answers.
func (f *faults) during(t *testing.T, what string, n int, fault func()) {
	t.Helper()
	messages, streams := []string{}, []*device.Stream{}
	ask := func(when string) {
		for i := range n {
			m := fmt.Sprintf("%s %s %d", what, when, i)
			messages = append(messages, m)
			streams = append(streams, f.d.Send(device.Request{Message: m, SessionID: f.in, RequestID: "id of " + m}))
		}
	}
	ask("before")
	fault()
	ask("after")
	for i, s := range streams {
		f.settle(t, messages[i], s)
	}
}

// ended runs a command and answers what it printed, on which channel, and its exit code.
func (f *faults) ended(args ...string) (out, errs string, code int) {
	return f.endedWith(nil, args...)
}

func (f *faults) endedWith(env []string, args ...string) (out, errs string, code int) {
	cmd := exec.CommandContext(f.ctx, binary, args...)
	cmd.Env = append(append(append(os.Environ(), f.p.env...), "CAIRN_DATA="+f.p.data, "CAIRN_LISTEN="+f.p.addr), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its code says it
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// post sends a chat request over HTTP, and answers its problem or what came.
func (f *faults) post(t *testing.T, key, message string) (status int, body map[string]any) {
	t.Helper()
	token, err := f.u.Token(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]string{"message": message, "session_id": f.in})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.ctx, http.MethodPost, f.p.url()+"/api/v1/chat", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatalf("%s: %v: %s", resp.Status, err, text)
	}
	return resp.StatusCode, body
}

// complete is the law that every fault is held against.
func (f *faults) complete(t *testing.T) {
	seen := map[string]int{}
	for _, e := range f.u.timeline(f.ctx, f.in, f.last) {
		if text, ok := e.Item["text"].(string); ok && (e.Kind == "message" || e.Kind == "assistant") {
			seen[e.Kind+" "+text]++
		}
	}
	for _, m := range f.said {
		if seen["message "+m] != 1 || seen["assistant You said: "+m] != 1 {
			t.Errorf("%q stands %d times in the timeline, its answer %d times", m, seen["message "+m], seen["assistant You said: "+m])
		}
	}
	if len(seen) != 2*len(f.said) {
		t.Errorf("the timeline has %d messages and answers, %d were accepted", len(seen), len(f.said))
	}
}

// registeredTwice has several clients claim an e-mail at the same moment.
func (f *faults) registeredTwice(t *testing.T) {
	var group sync.WaitGroup
	results := make([]error, 3)
	for i := range results {
		group.Go(func() {
			_, results[i] = api.New(f.p.url()).Register(f.ctx, "Twice@example.com", fmt.Sprintf("the password of client %d", i))
		})
	}
	group.Wait()
	winners := 0
	for i, err := range results {
		var told *api.Problem
		switch {
		case err == nil:
			winners++
			if _, err := api.New(f.p.url()).Login(f.ctx, "twice@example.com", fmt.Sprintf("the password of client %d", i)); err != nil {
				t.Errorf("who registered can't log in: %v", err)
			}
		case !errors.As(err, &told) || told.Code != "email_taken":
			t.Errorf("client %d: %v", i, err)
		}
	}
	if winners != 1 {
		t.Errorf("%d clients registered one e-mail", winners)
	}
}
