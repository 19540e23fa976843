// Package tour shows the whole ring at work: an account, a device, a request that becomes a row in the
// device's file, a question that is answered from it, and what was recorded of that.
package tour

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
)

// What the tour asks.
const (
	Create = "Create a task called Buy milk, high priority, due tomorrow"
	Count  = "How many todo tasks do I have?"
)

// Options say where the backend is and how to show a run's events.
type Options struct {
	URL      string
	DB       string // the device's SQLite file; it must be new
	Timezone string // IANA; empty: UTC
	Out      io.Writer
	// Events writes a run's events as `cairn events tail` shows them.
	Events func(ctx context.Context, out io.Writer, scope, run string) error
	Wait   time.Duration // for each answer; zero: one minute
	Log    *slog.Logger
}

// Run takes the tour, and fails where something is not as it should be.
func Run(ctx context.Context, o Options) error {
	if o.Timezone == "" {
		o.Timezone = "UTC"
	}
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	o.Out = &shared{to: o.Out}
	t := &tour{Options: o, client: api.New(o.URL)}
	email := "tour-" + uuid.NewString()[:8] + "@example.com"
	account, err := t.client.Register(ctx, email, uuid.NewString())
	if err != nil {
		return fmt.Errorf("tour: register: %w", err)
	}
	t.say("1. An account", "%s is %s (tier %s)", email, account.Scope, account.Tier)

	store, err := device.OpenStore(ctx, o.DB, nil)
	if err != nil {
		return fmt.Errorf("tour: %w", err)
	}
	t.store, t.scope = store, account.Scope
	err = t.withDevice(ctx)
	return errors.Join(err, store.Close())
}

// shared is an output that tool calls and answers write to at once.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

type tour struct {
	Options
	client *api.Client
	store  *device.Store
	device *device.Device
	scope  string
}

func (t *tour) withDevice(ctx context.Context) error {
	id, err := t.store.Identity(ctx, uuid.NewString())
	if err != nil {
		return err
	}
	t.device, err = device.New(device.Options{URL: t.URL, Token: t.client.Token, DeviceID: id, Name: "the tour's device",
		Timezone: t.Timezone, Store: t.store, OnAnswer: t.did, Log: t.Log})
	if err != nil {
		return fmt.Errorf("tour: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- t.device.Run(ctx); cancel() }()
	err = t.walk(ctx)
	cancel()
	if why := <-stopped; why != nil && !errors.Is(why, context.Canceled) {
		err = errors.Join(why, err)
	}
	return err
}

func (t *tour) walk(ctx context.Context) error {
	if err := t.waiting(ctx, t.device.Ready); err != nil {
		return fmt.Errorf("tour: the device does not connect: %w", err)
	}
	t.say("2. A device", "connected, its data is in %s", t.DB)

	fmt.Fprintf(t.Out, "\n3. A request becomes a row on the device\n   > %s\n", Create)
	first, err := t.ask(ctx, Create, "")
	if err != nil {
		return err
	}
	if err := t.row(ctx); err != nil {
		return err
	}

	fmt.Fprintf(t.Out, "\n4. A question is answered from the real rows\n   > %s\n", Count)
	second, err := t.ask(ctx, Count, first.SessionID)
	if err != nil {
		return err
	}
	if !strings.Contains(second.Text, "1") && !strings.Contains(strings.ToLower(second.Text), "one") {
		return fmt.Errorf("tour: there is one todo task, and the answer is %q", second.Text)
	}

	record, err := t.record(ctx, second.RunID)
	if err != nil {
		return err
	}
	if t.Events != nil {
		fmt.Fprintf(t.Out, "\n5. The events of that run\n")
		if err := t.Events(ctx, t.Out, t.scope, second.RunID); err != nil {
			return fmt.Errorf("tour: events: %w", err)
		}
	}
	fmt.Fprintf(t.Out, "\n6. The run's record: GET /api/v1/runs/%s\n%s\n", second.RunID, record)
	return nil
}

// ask sends a message, and shows the answer.
func (t *tour) ask(ctx context.Context, message, thread string) (r device.Result, err error) {
	err = t.waiting(ctx, func(ctx context.Context) error {
		r, err = t.device.Send(device.Request{Message: message, SessionID: thread}).Wait(ctx)
		return err
	})
	if err = errors.Join(err, r.Err); err != nil {
		return r, fmt.Errorf("tour: %q: %w", message, err)
	}
	fmt.Fprintf(t.Out, "   < %s\n", strings.ReplaceAll(strings.TrimSpace(r.Text), "\n", "\n     "))
	return r, nil
}

// row shows the task in the device's file, and looks whether it is the one that was asked for.
func (t *tour) row(ctx context.Context) error {
	rows, err := t.store.Rows(ctx, "tasks")
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("tour: the device has %d tasks, not one", len(rows))
	}
	task := rows[0]
	fmt.Fprintf(t.Out, "   in the SQLite file, table tasks:\n%s\n", pretty(task, "   "))
	location, err := time.LoadLocation(t.Timezone)
	if err != nil {
		return fmt.Errorf("tour: %w", err)
	}
	due, _ := task["dueDate"].(int64)
	created, _ := task["createdAt"].(int64)
	tomorrow := time.UnixMilli(created).In(location).AddDate(0, 0, 1).Format(time.DateOnly)
	if on := time.UnixMilli(due).In(location).Format(time.DateOnly); task["title"] != "Buy milk" || task["priority"] != "high" || on != tomorrow {
		return fmt.Errorf("tour: the task is not the one that was asked for: %v, due %s", task, on)
	}
	return nil
}

// record is the run from REST, once it is recorded there that it ended.
func (t *tour) record(ctx context.Context, run string) (string, error) {
	var raw json.RawMessage
	err := t.waiting(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var status struct {
				Status string `json:"status"`
			}
			var problem *api.Problem
			err := t.client.Get(ctx, "/api/v1/runs/"+run, &raw)
			if err == nil {
				err = json.Unmarshal(raw, &status)
			}
			if err != nil && (!errors.As(err, &problem) || problem.Status != 404) {
				return err
			}
			if status.Status == "completed" || status.Status == "failed" || status.Status == "cancelled" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
	if err != nil {
		return "", fmt.Errorf("tour: the run's record: %w", err)
	}
	return pretty(raw, "   "), nil
}

// did shows a tool call.
func (t *tour) did(call device.Call, _ device.Answer) {
	fmt.Fprintf(t.Out, "   [tool call on the device] %s %s\n", call.Action, call.Table)
}

func (t *tour) say(title, format string, args ...any) {
	fmt.Fprintf(t.Out, "\n%s\n   %s\n", title, fmt.Sprintf(format, args...))
}

func (t *tour) waiting(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.Wait)
	defer cancel()
	return do(ctx)
}

func pretty(v any, indent string) string {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return fmt.Sprint(v)
		}
	}
	var b bytes.Buffer
	b.WriteString(indent)
	if err := json.Indent(&b, raw, indent, "  "); err != nil {
		return string(raw)
	}
	return strings.TrimRight(b.String(), "\n")
}
