package controls_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest"
)

// States are stored only by who stored last: the port's whole suite, on Postgres.
func TestAFlushMovesFromWhereItIsExpected(t *testing.T) {
	streamstest.States(t, func(t *testing.T) streams.States { return writerstates.New(pgtest.Read(t)) })
}

// counting is a model that can tell an event applied twice from one applied once.
type counting struct{}

func (counting) Name() string  { return "counting" }
func (counting) Revision() int { return 1 }

func (counting) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	for r := range b.Recorded() {
		b.Queue(`UPDATE counted SET n = n + 1 WHERE stream = $1`, string(r.Stream))
	}
	return nil
}

// meeting is a log that two engines begin to read at the same moment, both from where they stand then.
type meeting struct {
	*logtest.Log
	arrive func()
	both   <-chan struct{}
}

func (m *meeting) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	m.arrive()
	select {
	case <-m.both:
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.Log.Tail(ctx, partition, from, handle)
}

// Two engines that both believe that a partition is theirs apply every event once. The lock between them only saves work, so
// it is taken away here.
func TestTwoEnginesApplyEveryEventOnce(t *testing.T) {
	pool := pgtest.Read(t)
	for _, sql := range []string{
		`CREATE TABLE counted (stream text PRIMARY KEY, n bigint NOT NULL)`, `INSERT INTO counted VALUES ('thread-a', 0)`,
		`CREATE FUNCTION public.pg_try_advisory_lock(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pool.Reset()
	log := logtest.New(1)
	log.MaxBatch = 1
	const events = 40
	for range events {
		log.Append(scope, logtest.On("thread-a", thread.Titled{})...)
	}
	var arrived sync.WaitGroup
	arrived.Add(2)
	both := make(chan struct{})
	go func() { arrived.Wait(); close(both) }()
	for range 2 {
		var once sync.Once
		engine(t, projections.EngineConfig{
			Pool: pool, Tailer: &meeting{Log: log, arrive: func() { once.Do(arrived.Done) }, both: both},
			Schema: logtest.Schema(), Projectors: []projections.Projector{counting{}},
		})
	}
	logtest.Wait(t, pool, log, "counting")
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT n FROM counted`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != events {
		t.Errorf("%d events were applied %d times", events, n)
	}
}

// A process that has read a generation reads the next one from the moment of the swap on, though nobody told it.
func TestAReadFollowsASwap(t *testing.T) {
	pool := pgtest.Read(t)
	model := threads.New(projections.NewDB(pool))
	if err := projections.Ensure(t.Context(), pool, []projections.Projector{model.Projector()}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Get(t.Context(), scope, "a"); !errors.Is(err, projections.ErrNotFound) {
		t.Fatalf("before the swap: %v", err)
	}
	next, err := projections.CreateGeneration(t.Context(), pool, model.Projector())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO `+next.Table("threads")+` VALUES ($1, 'a', now(), now(), 1, NULL, 1, 0, 0)`, string(scope)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE projections SET generation = $1 WHERE name = 'threads'`, next.Number); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Get(t.Context(), scope, "a"); err != nil {
		t.Errorf("after the swap: %v", err)
	}
}

// engine runs an engine until the test ends.
func engine(t *testing.T, c projections.EngineConfig) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- projections.NewEngine(c).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("engine: %v", err)
		}
	})
}
