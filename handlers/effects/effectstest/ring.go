// Package effectstest turns the ring for tests in one goroutine and without a log: the real deciders, the
// real handlers of effects, and a real device on SQLite. It is no part of the program.
package effectstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/steps"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/memory"
)

// Scope is the one user, Device their one device.
const (
	Scope  = domain.Scope("user-test")
	Device = "laptop"
)

// Ring is a thread's world.
type Ring struct {
	T        testing.TB
	Asker    *memory.Asker
	Source   transcript.Source
	Live     *Live
	Store    *device.Store
	Now      time.Time
	Timezone string
	// Answer may replace what the device answers; ok false: the device's own.
	Answer func(call device.Call) (answer json.RawMessage, ok bool)

	route, turn, server interface {
		Do(ctx context.Context, e openeffects.Effect) error
	}
	schema *codec.Schema
	keys   streams.Keys
	asked  int
	begun  map[string]bool // effects that were done, and timers that were fired
}

// New makes a ring whose today is Monday, 2026-11-30, with the model and the embedder (nil: offline).
func New(t testing.TB, provider model.Provider, embedder embed.Embedder) *Ring {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	store, err := device.OpenStore(t.Context(), ":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if embedder == nil {
		embedder = embed.Hashed{}
	}
	r := &Ring{
		T: t, Store: store, Live: &Live{}, schema: schema, keys: memory.NewKeys(), begun: map[string]bool{},
		Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Timezone: "Europe/Berlin",
	}
	now := func() time.Time { return r.Now }
	r.Asker = memory.NewAsker(schema, r.keys, now)
	r.Source = transcript.Source{
		Events: stored{r.Asker}, Schema: schema, Keys: r.keys, Changed: func() <-chan struct{} { return nil },
	}
	m := model.New(model.Config{Provider: provider, Asker: r.Asker, Source: r.Source, Live: r.Live, Now: now, Watch: 200 * time.Millisecond})
	r.route, r.turn = m.Route(), m.Turn()
	r.server = &steps.Server{Asker: r.Asker, Source: r.Source, Embedder: embedder, Tries: 1}
	return r
}

// stored reads what the asker decided, as the events read model would.
type stored struct{ asker *memory.Asker }

func (s stored) of(key streams.StreamKey, keep func(uint64) bool) []streams.Recorded {
	return slices.DeleteFunc(s.asker.Recorded(), func(r streams.Recorded) bool {
		return r.Scope != key.Scope || r.Stream != key.Stream || !keep(r.Version)
	})
}

// Before is transcript.Events.
func (s stored) Before(_ context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error) {
	rows := s.of(key, func(v uint64) bool { return v < version })
	return rows[max(0, len(rows)-limit):], nil
}

// After is transcript.Events.
func (s stored) After(_ context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error) {
	rows := s.of(key, func(v uint64) bool { return v > version })
	return rows[:min(limit, len(rows))], nil
}

// Live keeps what was published.
type Live struct {
	mu     sync.Mutex
	frames []streams.LiveFrame
	At     []time.Time
}

// Publish is streams.Live.
func (l *Live) Publish(_ context.Context, f streams.LiveFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames, l.At = append(l.frames, f), append(l.At, time.Now())
	return nil
}

// Follow is streams.Live.
func (l *Live) Follow(ctx context.Context, _ func(streams.LiveFrame)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Frames are the frames so far.
func (l *Live) Frames() []streams.LiveFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.frames)
}

// Ask sends a command under an id of its own.
func (r *Ring) Ask(body domain.Command) error {
	r.asked++
	_, err := r.Asker.Ask(r.T.Context(), streams.Command{
		Scope: Scope, ID: streams.CommandID(Scope, fmt.Sprint("test ", r.asked)),
		Actor: domain.Actor{Kind: domain.ActorUser, ID: "test"}, Body: body,
	})
	return err
}

// Post posts a message and answers its run's id. New threads are made as needed.
func (r *Ring) Post(m thread.PostMessage) string {
	r.T.Helper()
	m.RunID = streams.Derive(string(Scope), fmt.Sprint("run ", r.asked))
	m.DeviceID, m.Timezone = Device, r.Timezone
	if m.Channel == "" {
		m.Channel = thread.Chat
	}
	m.New = len(r.Events(m.Thread)) == 0
	if err := r.Ask(m); err != nil {
		r.T.Fatalf("post %q: %v", m.Content.Text, err)
	}
	return m.RunID
}

// Say posts a message in a thread, turns the ring until nothing is open, and answers the run.
func (r *Ring) Say(threadID string, channel thread.Channel, text string) *transcript.Run {
	r.T.Helper()
	run := r.Post(thread.PostMessage{On: thread.On{Thread: threadID}, Channel: channel, Content: thread.Content{Text: text}})
	r.Turn()
	return r.Thread(threadID).Run(run)
}

// Thread is the thread as its events say.
func (r *Ring) Thread(id string) *transcript.Thread { return transcript.Fold(id, r.Events(id)) }

// Events are the opened events of a thread.
func (r *Ring) Events(id string) []any {
	r.T.Helper()
	var opened []any
	for _, row := range r.Asker.Recorded() {
		if row.Stream != domain.NewStream("thread", id) {
			continue
		}
		event, err := r.schema.Open(r.T.Context(), r.keys, row)
		if err != nil {
			r.T.Fatalf("open %s: %v", row.Type, err)
		}
		opened = append(opened, event)
	}
	return opened
}

// Turn does open effects, and fires retries, until there are none.
func (r *Ring) Turn() {
	r.T.Helper()
	r.Until(func() bool { return false })
}

// Until is Turn, but stops earlier where done says so.
func (r *Ring) Until(done func() bool) {
	r.T.Helper()
	for range 500 {
		if done() || !r.once() {
			return
		}
	}
	r.T.Fatal("the ring does not come to rest")
}

func (r *Ring) once() bool {
	r.T.Helper()
	effects, retries := r.open()
	for _, e := range effects {
		if r.begun[e.ID] {
			continue
		}
		r.begun[e.ID] = true
		if err := r.do(e); err != nil {
			r.T.Fatalf("effect %s: %v", e.ID, err)
		}
		return true
	}
	for timer, stream := range retries {
		if r.begun[timer] {
			continue
		}
		r.begun[timer] = true
		if err := r.Ask(thread.FireTimer{On: thread.On{Thread: stream.ID()}, Timer: timer}); err != nil {
			r.T.Fatalf("timer %s: %v", timer, err)
		}
		return true
	}
	return false
}

// open folds what the events ask for, as the read models of open effects and timers do.
func (r *Ring) open() ([]openeffects.Effect, map[string]domain.Stream) {
	var effects []openeffects.Effect
	timers := map[string]domain.Stream{}
	groups := map[string]string{}
	for _, row := range r.Asker.Recorded() {
		event, err := r.schema.Decode(row)
		if err != nil {
			r.T.Fatalf("decode %s: %v", row.Type, err)
		}
		if o, ok := event.(domain.Opens); ok {
			for _, e := range o.Opens() {
				effects = append(effects, openeffects.Effect{
					Scope: row.Scope, Stream: row.Stream, ID: e.ID, Kind: e.Kind, Group: e.Group, Device: e.Device,
					Repeatable: e.Repeatable, Version: row.Version, EventID: row.ID,
				})
			}
		}
		if c, ok := event.(domain.Closes); ok {
			effects = slices.DeleteFunc(effects, func(e openeffects.Effect) bool { return slices.Contains(c.Closes(), e.ID) })
		}
		if s, ok := event.(domain.Sets); ok {
			for _, timer := range s.Sets() {
				if kind, _, _ := strings.Cut(timer.ID, ":"); kind == "retry" || kind == "index" {
					timers[timer.ID], groups[timer.ID] = row.Stream, timer.Group
				}
			}
		}
		if c, ok := event.(domain.Clears); ok {
			for _, id := range c.Clears() {
				delete(timers, id)
			}
		}
		if c, ok := event.(domain.ClosesGroup); ok {
			group := c.ClosesGroup()
			effects = slices.DeleteFunc(effects, func(e openeffects.Effect) bool { return e.Group == group })
			for id := range timers {
				if groups[id] == group {
					delete(timers, id)
				}
			}
		}
	}
	return effects, timers
}

func (r *Ring) do(e openeffects.Effect) error {
	switch e.Kind {
	case "route":
		return r.route.Do(r.T.Context(), e)
	case "turn":
		return r.turn.Do(r.T.Context(), e)
	case "server":
		return r.server.Do(r.T.Context(), e)
	}
	return r.onDevice(e)
}

// onDevice offers a step to the device and records its answer, as the gateway does.
func (r *Ring) onDevice(e openeffects.Effect) error {
	callID, number, _ := thread.ParseStepID(e.ID)
	step := r.Thread(e.Stream.ID()).Call(callID).Steps[number]
	on := thread.On{Thread: e.Stream.ID()}
	if err := r.Ask(thread.OfferCall{On: on, CallID: callID, Step: number, DeviceID: Device}); err != nil {
		return err
	}
	call := device.Call{ID: e.ID, Action: step.Action, Table: step.Table}
	if err := json.Unmarshal(step.Payload.Fields, &call); err != nil {
		return fmt.Errorf("fields of %s: %w", e.ID, err)
	}
	answer, replaced := json.RawMessage(nil), false
	if r.Answer != nil {
		answer, replaced = r.Answer(call)
	}
	if !replaced {
		var err error
		if answer, _, err = r.Store.ExecuteOnce(r.T.Context(), call); err != nil {
			return err
		}
	}
	result := thread.RecordResult{On: on, CallID: callID, Step: number, DeviceID: Device, Result: thread.Result{Device: answer}}
	var failed struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &failed) == nil && failed.Error != "" {
		result.Failure = thread.DeviceError
	}
	return r.Ask(result)
}

// Rows are the rows of a table on the device.
func (r *Ring) Rows(table string) []device.Row {
	r.T.Helper()
	answer, err := r.Store.Execute(r.T.Context(), device.Call{Action: "select", Table: table, Filters: map[string]json.RawMessage{}})
	if err != nil {
		r.T.Fatal(err)
	}
	var rows struct {
		Rows []device.Row `json:"rows"`
	}
	if err := json.Unmarshal(answer, &rows); err != nil {
		r.T.Fatalf("%s: %v", answer, err)
	}
	return rows.Rows
}

// Text is the last committed text of a run.
func Text(run *transcript.Run) string {
	if run == nil || len(run.Turns) == 0 {
		return ""
	}
	return run.Turns[len(run.Turns)-1].Text
}
