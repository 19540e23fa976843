package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// gated is a log whose tails begin when the gate opens.
type gated struct {
	*logtest.Log
	open    chan struct{}
	waiting chan struct{} // closed when the first one waits
	once    *sync.Once
}

func gate(log *logtest.Log) gated {
	return gated{log, make(chan struct{}), make(chan struct{}), &sync.Once{}}
}

// Tail implements streams.Tailer.
func (g gated) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	g.once.Do(func() { close(g.waiting) })
	select {
	case <-g.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return g.Log.Tail(ctx, partition, from, handle)
}

func inLanes(t testing.TB, log streams.Tailer, lanes int, projectors ...projections.Projector) projections.EngineConfig {
	return projections.EngineConfig{Pool: pgtest.Read(t), Tailer: log, Schema: logtest.Schema(), Projectors: projectors, Lanes: lanes}
}

// TestWhoKnowsOtherLanesMovesNothing: a process that stood still while the lanes were split or joined has checkpoints where it
// expects them, and yet applies nothing.
func TestWhoKnowsOtherLanesMovesNothing(t *testing.T) {
	for _, lanes := range [][2]int{{1, 2}, {2, 1}} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			log := logtest.New(1)
			config := inLanes(t, log, lanes[1], counter{})
			pool := config.Pool
			if err := projections.Ensure(t.Context(), pool, config.Projectors, lanes[0]); err != nil {
				t.Fatal(err)
			}
			filled := targets(t, pool, config.Projectors)
			for i := range 9 {
				chat(log, domain.Scope(fmt.Sprintf("user-%d", i)), "thread-a", "run")
			}
			still, feeding := gate(log), gate(log)
			end := make(chan error, 1)
			go func() {
				end <- projections.Fill(t.Context(), projections.FillConfig{Pool: pool, Tailer: still, Schema: config.Schema, Targets: filled})
			}()
			<-still.waiting
			// Meanwhile it is taken for dead: another ends its work, and an engine with other lanes feeds.
			if err := projections.BuildIndexes(t.Context(), pool, filled[0].Generation); err != nil {
				t.Fatal(err)
			}
			config.Tailer = feeding
			run(t, projections.NewEngine(config).Run)
			<-feeding.waiting
			if n := count(t, pool, fmt.Sprintf(`SELECT count(*) FROM projection_generations WHERE projection = 'counter' AND lanes = %d`, lanes[1])); n != 2 {
				t.Fatalf("%d generations have %d lanes, wanted 2", n, lanes[1])
			}
			close(still.open)
			if err := <-end; err != nil {
				t.Fatalf("filling what others fed meanwhile answered %v", err)
			}
			if n := count(t, pool, `SELECT count(*) FROM counter_2`); n != 0 {
				t.Errorf("it wrote %d rows", n)
			}
			close(feeding.open)
			waitLevel(t, pool, log, counter{})
			equal(t, "filled and live", strings.ReplaceAll(dump(t.Context(), t, pool, "counter_2"), "counter_2", "counter_1"), dump(t.Context(), t, pool, "counter_1"))
		})
	}
}

// TestWhoWaitsForLanesToBeChangedMovesNothing: it began to move a checkpoint before the lanes were others, and got its turn after.
func TestWhoWaitsForLanesToBeChangedMovesNothing(t *testing.T) {
	log := logtest.New(1)
	config := inLanes(t, gate(log), 2, models(nil)[0]) // one that is filled without a key
	pool := config.Pool
	if err := projections.Ensure(t.Context(), pool, config.Projectors, 1); err != nil {
		t.Fatal(err)
	}
	filled := targets(t, pool, config.Projectors)
	chat(log, scope, "thread-a", "run")
	still := gate(log)
	end := make(chan error, 1)
	go func() {
		end <- projections.Fill(t.Context(), projections.FillConfig{Pool: pool, Tailer: still, Schema: config.Schema, Targets: filled})
	}()
	<-still.waiting
	if err := projections.BuildIndexes(t.Context(), pool, filled[0].Generation); err != nil {
		t.Fatal(err)
	}
	// Who changes the lanes holds the rows and waits: somebody else is writing one that it makes.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it may be over
	if _, err := tx.Exec(t.Context(), `INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
		SELECT projection, generation, partition, 1, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at
		  FROM projection_checkpoints WHERE projection = 'events' AND generation = 2`); err != nil {
		t.Fatal(err)
	}
	watcher := watch(t, pool)
	waiting := func(want int) {
		eventually(t, func() error {
			if n := count(t, watcher, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'advisory'`); n != want {
				return fmt.Errorf("%d wait for a lock", n)
			}
			return nil
		})
	}
	run(t, projections.NewEngine(config).Run)
	waiting(1)
	close(still.open)
	waiting(2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `SELECT count(*) FROM events_2`); n != 0 {
		t.Errorf("it wrote %d rows", n)
	}
}

// tripping is a counter that stops at some events.
type tripping struct {
	counter
	at string
}

func (p tripping) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	for r := range b.Recorded() {
		if p.at != "" && strings.Contains(string(r.Data), p.at) {
			return &projections.EventError{Event: r, Err: errors.New("I can't take this")}
		}
	}
	return p.counter.Apply(ctx, tx, b)
}

// TestLanesThatStandUnevenStayAsTheyAre: where nobody may level them, because the model is paused or its code is not there,
// splitting or joining them would lose events or apply some twice.
func TestLanesThatStandUnevenStayAsTheyAre(t *testing.T) {
	log := logtest.New(1)
	config := inLanes(t, log, 2)
	pool := config.Pool
	checkpoints := func() string { return dump(t.Context(), t, pool, "projection_checkpoints") }
	engine := func(lanes int, projectors ...projections.Projector) (stop func()) {
		config.Lanes, config.Projectors = lanes, projectors
		return run(t, projections.NewEngine(config).Run)
	}
	log.Append("user-ann", logtest.Post("thread-a", "poison", "laptop")...)
	for i := range 9 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i)), "thread-a", "run")
	}
	stop := engine(2, tripping{at: "poison"})
	eventually(t, func() error {
		if n := count(t, pool, `SELECT count(*) FROM projection_checkpoints WHERE stopped_at IS NULL AND next_offset = `+fmt.Sprint(len(log.Commits(0)))); n != 1 {
			return fmt.Errorf("%d lanes have all", n)
		}
		return nil
	})
	stop()
	uneven := checkpoints()

	// Another program runs: the engine without it begins when it feeds what is its own.
	fed := func() error {
		if n := count(t, pool, `SELECT count(*) FROM projection_checkpoints WHERE projection = 'threads'`); n == 0 {
			return errors.New("nothing is fed")
		}
		return nil
	}
	stop = engine(1, models(pool)...)
	eventually(t, fed)
	stop()
	if _, err := pool.Exec(t.Context(), `DELETE FROM projection_checkpoints WHERE projection <> 'counter'`); err != nil {
		t.Fatal(err)
	}
	equal(t, "checkpoints of a model whose code is not there", checkpoints(), uneven)

	if err := projections.Pause(t.Context(), pool, "counter", "ann"); err != nil {
		t.Fatal(err)
	}
	stop = engine(1, append(models(pool), tripping{})...)
	eventually(t, fed)
	stop()
	if _, err := pool.Exec(t.Context(), `DELETE FROM projection_checkpoints WHERE projection <> 'counter'`); err != nil {
		t.Fatal(err)
	}
	equal(t, "checkpoints of a paused model", checkpoints(), uneven)

	if err := projections.Resume(t.Context(), pool, "counter"); err != nil {
		t.Fatal(err)
	}
	engine(1, tripping{})
	waitLevel(t, pool, log, tripping{})
	events := 0
	for _, c := range log.Commits(0) {
		events += len(c.Events)
	}
	if n := count(t, pool, `SELECT sum(n)::int FROM counter`); n != events {
		t.Errorf("%d events were counted, wanted %d", n, events)
	}
	eventually(t, func() error {
		if n := count(t, pool, `SELECT count(*) FROM projection_checkpoints WHERE projection = 'counter'`); n != 1 {
			return fmt.Errorf("it has %d lanes, wanted 1", n)
		}
		return nil
	})
}
