package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
)

// moment is when the process is killed; arm arranges that reached is called then, once.
type moment struct {
	name string
	arm  func(k *killing, reached func())
}

// killing is what the moments look at.
type killing struct {
	ctx     context.Context
	t       *testing.T
	brokers []string

	mu      sync.Mutex
	onModel func(turn bool) // a model request arrived; turn: with tools
	onCall  func(device.Call)
	onFrame func(device.Frame)
}

func (k *killing) set(change func(*killing)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

// TestARunSurvivesAKill kills the whole process with SIGKILL at each step of a run, every second time its
// Postgres too. After the restart the run completes, the task exists once on the device, the timeline has no
// hole, and the client, which repeats its request, gets its end.
func TestARunSurvivesAKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	k := &killing{ctx: ctx, t: t}
	play := modeltest.Playing(offline.New())
	models, err := modeltest.Start(func(ctx context.Context, r modeltest.Request) modeltest.Reply {
		k.mu.Lock()
		hook := k.onModel
		k.mu.Unlock()
		if hook != nil {
			hook(len(r.Tools) > 0)
		}
		reply := play(ctx, r)
		reply.Pause = 5 * time.Millisecond
		return reply
	})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	p := newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	u := newUser(ctx, t, p)
	d := u.device(func(o *device.Options) {
		o.OnFrame = func(f device.Frame) {
			k.mu.Lock()
			hook := k.onFrame
			k.mu.Unlock()
			if hook != nil {
				hook(f)
			}
		}
		o.OnCall = func(c device.Call) {
			k.mu.Lock()
			hook := k.onCall
			k.mu.Unlock()
			if hook != nil {
				hook(c)
			}
		}
	})
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-44s %-10s %-9s %6s %6s %s\n", "killed when", "postgres", "back in", "tasks", "rows", "run")
	for i, at := range moments() {
		k.brokers = p.brokers()
		title := fmt.Sprintf("Step%d", i)
		withPostgres := i%2 == 1
		reached := make(chan struct{})
		var once sync.Once
		at.arm(k, func() {
			once.Do(func() {
				p.kill()
				if withPostgres {
					killPostgres(p.data)
				}
				close(reached)
			})
		})
		stream := d.Send(device.Request{Message: "Create a task called " + title + ", low priority"})
		select {
		case <-reached:
		case <-ctx.Done():
			t.Fatalf("%s: the moment never came", at.name)
		}
		k.set(func(k *killing) { k.onModel, k.onCall, k.onFrame = nil, nil, nil })
		began := time.Now()
		p.start(ctx)
		back := time.Since(began)
		result, err := stream.Wait(ctx)
		if err != nil || result.Err != nil {
			t.Fatalf("%s: the request ended with %v, %v", at.name, err, result.Err)
		}
		tasks := titled(ctx, t, d, title)
		entries := u.timeline(ctx, result.SessionID, result.Position)
		status := runStatus(ctx, t, u, result)
		fmt.Fprintf(&table, "%-44s %-10s %6.1f s %6d %6d %s\n", at.name, map[bool]string{true: "killed", false: "left"}[withPostgres], back.Seconds(), tasks, len(entries), status)
		if tasks != 1 || status != "completed" || count(entries, "tool_call") != 1 || count(entries, "tool_result") != 1 || count(entries, "run_end") != 1 {
			t.Errorf("%s: %d tasks, run %s, timeline %+v", at.name, tasks, status, entries)
		}
		if !strings.Contains(result.Text, title) {
			t.Errorf("%s: the client got %q", at.name, result.Text)
		}
	}
	t.Logf("a run, killed at each step:\n%s", table.String())
}

func moments() []moment {
	inTopic := func(topic, what string) func(*killing, func()) {
		return func(k *killing, reached func()) { k.record(topic, what, reached) }
	}
	return []moment{
		{"its command is in the commands topic", inTopic("cairn.commands", `thread.post_message`)},
		{"its first commit is in the log", inTopic("cairn.log", `thread.message_posted`)},
		{"the model is being called", func(k *killing, reached func()) {
			k.set(func(k *killing) {
				k.onModel = func(turn bool) {
					if turn {
						reached()
					}
				}
			})
		}},
		{"the tool call is in the log", inTopic("cairn.log", `thread.tool_call_requested`)},
		{"tool_call was sent, the device works on it", func(k *killing, reached func()) {
			k.set(func(k *killing) { k.onCall = func(device.Call) { reached() } })
		}},
		{"tool_result arrived", inTopic("cairn.commands", `thread.record_result`)},
		{"its result is in the log", inTopic("cairn.log", `thread.tool_call_completed`)},
		{"the answer streams", func(k *killing, reached func()) {
			k.set(func(k *killing) {
				k.onFrame = func(f device.Frame) {
					if f.Type == "stream_text" {
						reached()
					}
				}
			})
		}},
		{"its end is in the log", inTopic("cairn.log", `thread.run_completed`)},
	}
}

// record calls reached when a record that holds what comes into a topic from now on.
func (k *killing) record(topic, what string, reached func()) {
	k.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		k.t.Fatal(err)
	}
	client.PollFetches(contextOf(k.ctx, 300*time.Millisecond)) // it now knows where the end is
	go func() {
		defer client.Close()
		for k.ctx.Err() == nil {
			found := false
			client.PollFetches(k.ctx).EachRecord(func(r *kgo.Record) { found = found || strings.Contains(string(r.Value), what) })
			if found {
				reached()
				return
			}
		}
	}()
}

func contextOf(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func titled(ctx context.Context, t *testing.T, d *device.Device, title string) (n int) {
	t.Helper()
	rows, err := d.Store().Rows(ctx, "tasks")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row["title"] == title {
			n++
		}
	}
	return n
}

func runStatus(ctx context.Context, t *testing.T, u *user, r device.Result) string {
	t.Helper()
	var record struct {
		Status string `json:"status"`
	}
	if err := u.Get(ctx, "/api/v1/runs/"+r.RunID+"?min_position="+r.Position, &record); err != nil {
		t.Fatal(err)
	}
	return record.Status
}
