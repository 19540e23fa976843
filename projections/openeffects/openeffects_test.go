package openeffects_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/work"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const (
	ann    = domain.Scope("user-ann")
	stream = domain.Stream("thread-a")
)

type fixture struct {
	pool  *pgxpool.Pool
	log   *logtest.Log
	model *openeffects.Model
	work  *work.Tables
}

func open(t *testing.T) fixture {
	pool := pgtest.Read(t)
	f := fixture{pool: pool, log: logtest.New(1), model: openeffects.New(projections.NewDB(pool)), work: work.New(pool)}
	logtest.Project(t, pool, f.log, f.model.Projector())
	return f
}

// append appends events and waits until the model has them and is caught up.
func (f fixture) append(t *testing.T, facts ...domain.Fact) {
	t.Helper()
	f.log.Append(ann, facts...)
	logtest.Wait(t, f.pool, f.log, openeffects.Name)
	f.caughtUp(t)
}

func (f fixture) caughtUp(t *testing.T) {
	t.Helper()
	logtest.Eventually(t, "the model is caught up", func() bool {
		var n int
		err := f.pool.QueryRow(t.Context(), `SELECT count(*) FROM cairn_caught_up('open_effects')`).Scan(&n)
		return err == nil && n == 1
	})
}

func (f fixture) take(t *testing.T, worker string, devices ...string) []string {
	t.Helper()
	taken, err := f.model.Take(t.Context(), worker, []string{thread.EffectRoute, thread.EffectTurn, thread.EffectDevice}, devices, 100)
	if err != nil {
		t.Fatal(err)
	}
	return ids(taken)
}

func (f fixture) abandoned(t *testing.T) []string {
	t.Helper()
	found, err := f.model.Abandoned(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	return ids(found)
}

func ids(effects []openeffects.Effect) []string {
	var out []string
	for _, e := range effects {
		out = append(out, e.ID)
	}
	return out
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: got %v, wanted %v", what, got, want)
	}
}

func TestADeadWorkersClaimsAreTakenOver(t *testing.T) {
	f := open(t)
	f.append(t, logtest.Post(stream, "run", "laptop")...)
	want(t, "the first worker takes it", f.take(t, "one"), "run.route.1")
	want(t, "it has it already", f.take(t, "one"))
	want(t, "the other does not get what a living worker holds", f.take(t, "two"))
	pgtest.ShiftClock(t, f.pool, 9*time.Second)
	f.caughtUp(t)
	want(t, "9 s after its last touch a worker lives", f.take(t, "two"))
	pgtest.ShiftClock(t, f.pool, 12*time.Second)
	f.caughtUp(t)
	want(t, "10 s after its last touch it is dead", f.take(t, "two"), "run.route.1")
	want(t, "who was dead does not have it back", f.take(t, "one"))
	if err := f.model.Release(t.Context(), "one", ann, "run.route.1"); err != nil {
		t.Fatal(err)
	}
	want(t, "only who holds a claim can give it up", f.take(t, "one"))
	if err := f.model.Release(t.Context(), "two", ann, "run.route.1"); err != nil {
		t.Fatal(err)
	}
	want(t, "what was given up is free", f.take(t, "one"), "run.route.1")
	f.append(t, logtest.On(stream, thread.RouteDecided{RunID: "run", Attempt: 1, Agent: "a"}, thread.TurnRequested{RunID: "run", Turn: 1, Attempt: 1, Agent: "a"})...)
	want(t, "an outcome closes, an intent opens", f.take(t, "two"), "run.turn.1.1")
	f.append(t, logtest.On(stream, thread.RunCancelled{RunID: "run", By: "user"})...)
	listed, err := f.model.List(t.Context(), ann, 10)
	if err != nil || len(listed) != 0 {
		t.Fatalf("the end of the run closes its effects, but there are %v (%v)", listed, err)
	}
	pgtest.ShiftClock(t, f.pool, 2*time.Minute)
	if n, err := f.model.Sweep(t.Context()); err != nil || n != 2 {
		t.Fatalf("swept %d claims (%v), wanted 2", n, err)
	}
}

func TestWhatWasStartedAndMustNotBeRepeatedIsAbandoned(t *testing.T) {
	f := open(t)
	step := logtest.DeviceStep("run", "laptop", "insert", false)
	f.append(t, logtest.On(stream, thread.ToolCallRequested{Step: step, Turn: 1})...)
	want(t, "another device's gateway", f.take(t, "gateway", openeffects.DevicePair(ann, "phone"), openeffects.DevicePair("user-bob", "laptop")))
	want(t, "the device's gateway", f.take(t, "gateway", openeffects.DevicePair(ann, "laptop")), step.ID())
	f.append(t, logtest.On(stream, thread.ToolCallOffered{CallID: step.CallID, RunID: "run", Step: 1, DeviceID: "laptop", Started: true})...)
	want(t, "its worker lives", f.abandoned(t))
	pgtest.ShiftClock(t, f.pool, 11*time.Second)
	f.caughtUp(t)
	want(t, "nobody takes it again", f.take(t, "gateway2", openeffects.DevicePair(ann, "laptop")))
	want(t, "its worker is dead", f.abandoned(t), step.ID())
	f.append(t, logtest.On(stream, thread.ToolCallFailed{CallID: step.CallID, RunID: "run", Step: 1, Reason: thread.OutcomeUnknown})...)
	want(t, "it has its outcome", f.abandoned(t))
}

func TestPauseStopsEverything(t *testing.T) {
	f := open(t)
	f.append(t, logtest.Post(stream, "run", "laptop")...)
	if err := f.work.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "paused", f.take(t, "one"))
	if paused, since, err := f.work.Paused(t.Context()); err != nil || !paused || since.IsZero() {
		t.Fatalf("paused is %v since %v (%v)", paused, since, err)
	}
	if err := f.work.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "resumed", f.take(t, "one"), "run.route.1")
}

// TestNothingIsTakenFromAModelThatIsBehind: the log has ended further on for five seconds.
func TestNothingIsTakenFromAModelThatIsBehind(t *testing.T) {
	f := open(t)
	f.append(t, logtest.Post(stream, "run", "laptop")...)
	if _, err := f.pool.Exec(t.Context(), `CREATE OR REPLACE RULE behind AS ON INSERT TO log_ends DO INSTEAD NOTHING;
		UPDATE log_ends SET end_offset = 99`); err != nil {
		t.Fatal(err)
	}
	want(t, "behind", f.take(t, "one"))
	if _, err := f.pool.Exec(t.Context(), `UPDATE log_ends SET end_offset = 1, sampled_at = cairn_now() - interval '1 minute'
		WHERE sampled_at = (SELECT max(sampled_at) FROM log_ends)`); err != nil {
		t.Fatal(err)
	}
	want(t, "nobody knows where the log ends", f.take(t, "one"))
}

func TestOfManyWorkersOneGetsAnEffect(t *testing.T) {
	f := open(t)
	var facts []domain.Fact
	for i := range 40 {
		facts = append(facts, logtest.Post(domain.Stream(fmt.Sprintf("thread-%d", i)), fmt.Sprint("run", i), "laptop")...)
	}
	f.append(t, facts...)
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for range 40 {
				taken, err := f.model.Take(t.Context(), fmt.Sprint("worker", worker), []string{thread.EffectRoute}, nil, 3)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, e := range taken {
					got[e.ID]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(got) != 40 {
		t.Fatalf("%d of 40 effects were taken", len(got))
	}
	for id, n := range got {
		if n != 1 {
			t.Fatalf("%s was taken %d times", id, n)
		}
	}
}
