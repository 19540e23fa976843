package runs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const (
	ann    = domain.Scope("user-ann")
	stream = domain.Stream("thread-a")
)

// TestARunIsShownAsItGoes follows one run and its thread through every status.
func TestARunIsShownAsItGoes(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m, list := runs.New(projections.NewDB(pool)), threads.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, m.Projector(), list.Projector())
	step := logtest.DeviceStep("run", "laptop", "insert", false)
	var r runs.Run
	after := func(want runs.Status, events ...any) {
		t.Helper()
		log.Append(ann, logtest.On(stream, events...)...)
		logtest.Wait(t, pool, log, runs.Name, threads.Name)
		var err error
		if r, err = m.Get(t.Context(), ann, "run"); err != nil || r.Status != want {
			t.Fatalf("after %T the run is %q (%v), wanted %q", events[0], r.Status, err, want)
		}
	}
	after(runs.Queued, thread.Opened{}, thread.MessagePosted{RunID: "run", Channel: thread.Home, Queued: true, DeviceID: "laptop"})
	after(runs.Running, thread.RunStarted{RunID: "run", Channel: thread.Home, DeviceID: "laptop", MessageVersion: 2}, thread.RouteRequested{RunID: "run", Attempt: 1})
	after(runs.Running, thread.RouteFailed{RunID: "run", Attempt: 1, Class: thread.Unavailable, RetryAfter: 1}, thread.RouteRequested{RunID: "run", Attempt: 2},
		thread.RouteDecided{RunID: "run", Attempt: 2, Agent: "task_agent", Model: "m"}, thread.TurnRequested{RunID: "run", Turn: 1, Attempt: 1, Agent: "task_agent"})
	after(runs.Running, thread.TurnFailed{RunID: "run", Turn: 1, Attempt: 1, Class: thread.RateLimited, RetryAfter: 1}, thread.TurnRequested{RunID: "run", Turn: 1, Attempt: 2, Agent: "task_agent"})
	after(runs.Waiting, thread.TurnCompleted{RunID: "run", Turn: 1, Attempt: 2, Agent: "task_agent", InputTokens: 10, OutputTokens: 5, Calls: 1, Warnings: []string{"w"}},
		thread.ToolCallRequested{Step: step, Turn: 1})
	if active, err := list.Get(t.Context(), ann, "a"); err != nil || active.ActiveRun != "run" || active.Messages != 1 {
		t.Fatalf("the thread is %+v (%v)", active, err)
	}
	after(runs.Running, thread.ToolCallOffered{CallID: step.CallID, RunID: "run", Step: 1, DeviceID: "laptop", Started: true})
	after(runs.Running, thread.ToolCallCompleted{CallID: step.CallID, RunID: "run", Step: 1, Mutations: []thread.Mutation{{Table: "tasks", Action: "insert", ID: "t1"}}},
		thread.TurnRequested{RunID: "run", Turn: 2, Attempt: 1, Agent: "task_agent"})
	after(runs.Completed, thread.TurnCompleted{RunID: "run", Turn: 2, Attempt: 1, InputTokens: 20, OutputTokens: 7}, thread.RunCompleted{RunID: "run", Turns: 2})
	after(runs.Completed, thread.LateResultRecorded{CallID: step.CallID, Step: 1, DeviceID: "laptop"})

	if r.Agent != "task_agent" || r.Attempts != 3 || r.InputTokens != 30 || r.OutputTokens != 12 || len(r.Turns) != 2 || len(r.Calls) != 1 ||
		len(r.Mutations) != 1 || len(r.Warnings) != 1 || r.LateResults != 1 || r.AnswerVersion != 16 || r.EndedAt == nil || r.StartedAt == nil {
		t.Fatalf("the run is %+v", r)
	}
	if r.Route.Attempts != 2 || len(r.Route.Failures) != 1 || len(r.Turns[0].Failures) != 1 || r.Turns[0].Attempts != 2 {
		t.Fatalf("its failures: %+v, %+v", r.Route, r.Turns[0])
	}
	if c := r.Calls[0]; c.Status != "completed" || c.ResultVersion == 0 || c.Steps[0].OfferedAt == nil || !c.Steps[0].Started {
		t.Fatalf("its call is %+v", c)
	}
	log.Append(ann, logtest.Post(stream, "run2", "laptop")...)
	log.Append(ann, logtest.On(stream, thread.RunFailed{RunID: "run2", Code: thread.Refused, Reason: "no key"})...)
	logtest.Wait(t, pool, log, runs.Name, threads.Name)
	all, err := m.ByThread(t.Context(), ann, "a", 0, 0)
	if err != nil || len(all) != 2 || all[0].ID != "run2" || all[0].Status != runs.Failed || all[0].Error == nil {
		t.Fatalf("the thread's runs are %+v (%v)", all, err)
	}
	if older, err := m.ByThread(t.Context(), ann, "a", all[0].MessageVersion, 1); err != nil || len(older) != 1 || older[0].ID != "run" {
		t.Fatalf("before it: %+v (%v)", older, err)
	}
	if _, err := m.Get(t.Context(), "user-eve", "run"); !errors.Is(err, projections.ErrNotFound) {
		t.Fatalf("somebody else's run: %v", err)
	}
	if ended, err := list.Get(t.Context(), ann, "a"); err != nil || ended.ActiveRun != "" || ended.Head != 22 {
		t.Fatalf("the thread is %+v (%v)", ended, err)
	}
}

// TestTheRunsOfAnAgent are the same in both revisions, however large the pages are, and nobody else's.
func TestTheRunsOfAnAgent(t *testing.T) {
	for name, of := range map[string]func(*runs.Model) projections.Projector{"newest": (*runs.Model).Projector, "previous": (*runs.Model).Previous} {
		t.Run(name, func(t *testing.T) {
			pool, log := pgtest.Read(t), logtest.New(1)
			m := runs.New(projections.NewDB(pool))
			logtest.Project(t, pool, log, of(m))
			var want []string
			for i := range 620 { // more than are looked through at once
				if i%4 == 0 {
					log.SetTime(time.Unix(1_800_000_000+int64(i), 0)) // several have the same time
				}
				run, agent := fmt.Sprintf("run-%03d", i), [2]string{"task_agent", "note_agent"}[i%2]
				for _, scope := range []domain.Scope{ann, "user-bob"} {
					on := domain.Stream("thread-" + run)
					log.Append(scope, logtest.On(on, thread.Opened{}, thread.MessagePosted{RunID: run, Channel: thread.Home},
						thread.RunStarted{RunID: run, Channel: thread.Home}, thread.RouteDecided{RunID: run, Attempt: 1, Agent: agent})...)
				}
				if agent == "task_agent" {
					want = append(want, run)
				}
			}
			logtest.Wait(t, pool, log, runs.Name)
			var shown int
			if err := pool.QueryRow(t.Context(), `SELECT revision FROM projection_generations g JOIN projections p ON p.name = g.projection AND p.generation = g.generation
				WHERE p.name = 'runs'`).Scan(&shown); err != nil || shown != of(m).Revision() {
				t.Fatalf("revision %d is read (%v)", shown, err)
			}
			slices.SortFunc(want, func(a, b string) int { return strings.Compare(b, a) })
			for _, size := range []int{7, 100, 400} {
				var got []string
				for cursor, pages := "", 0; ; pages++ {
					page, next, err := m.ByAgent(t.Context(), ann, "task_agent", cursor, size)
					if err != nil || len(page) > size || pages > 100 {
						t.Fatalf("page %d of %d: %d runs (%v)", pages, size, len(page), err)
					}
					for _, r := range page {
						got = append(got, r.ID)
					}
					if cursor = next; next == "" {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("pages of %d: %v, wanted %v", size, got, want)
				}
			}
			if _, _, err := m.ByAgent(t.Context(), ann, "task_agent", "%%%", 1); !errors.Is(err, runs.ErrCursor) {
				t.Fatalf("a broken cursor: %v", err)
			}
			if none, _, err := m.ByAgent(t.Context(), ann, "nobody", "", 5); err != nil || len(none) != 0 {
				t.Fatalf("an agent that never answered: %v (%v)", none, err)
			}
		})
	}
}
