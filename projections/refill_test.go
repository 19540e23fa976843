package projections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/lifeline"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// filling is a log of one thread, and a generation beside the live one to be filled from it.
func filling(t testing.TB, p projections.Projector) (*logtest.Log, projections.FillConfig) {
	t.Helper()
	log, pool := logtest.New(1), pgtest.Read(t)
	chat(log, scope, "thread-a", "run")
	if err := projections.Ensure(t.Context(), pool, []projections.Projector{p}, 1); err != nil {
		t.Fatal(err)
	}
	return log, projections.FillConfig{Pool: pool, Tailer: log, Schema: logtest.Schema(), Targets: targets(t, pool, []projections.Projector{p})}
}

// TestFillEndsWhereItsGenerationIsDropped: it does not wait for it to come back, however it writes.
func TestFillEndsWhereItsGenerationIsDropped(t *testing.T) {
	for _, p := range []projections.Projector{counter{}, models(nil)[0]} {
		t.Run(p.Name(), func(t *testing.T) {
			log, config := filling(t, p)
			still := gate(log)
			config.Tailer = still
			end := make(chan error, 1)
			go func() { end <- projections.Fill(t.Context(), config) }()
			<-still.waiting
			if err := projections.Drop(t.Context(), config.Pool, p.Name(), 2); err != nil {
				t.Fatal(err)
			}
			close(still.open)
			select {
			case err := <-end:
				if !errors.Is(err, projections.ErrNoGeneration) {
					t.Fatalf("it answered %v, wanted ErrNoGeneration", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}

// TestFillOfWhatIsFilledTellsSo: nothing is left to do, and that is told.
func TestFillOfWhatIsFilledTellsSo(t *testing.T) {
	_, config := filling(t, counter{})
	var last projections.Progress
	config.Progress = func(p projections.Progress) { last = p }
	for range 2 {
		if err := projections.Fill(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if last.Done != last.Total || last.Total == 0 || last.Phase != projections.Feeding {
			t.Fatalf("it told %+v", last)
		}
	}
}

// slow is a counter whose key, index and audit take a while each.
type slow struct{ counter }

const takes = 400 * time.Millisecond

func (slow) Fills() {}

func (slow) Shape() string {
	wait := fmt.Sprintf("SELECT pg_sleep(%f);\n", takes.Seconds())
	return "-- tables\nCREATE TABLE {counter} (scope text NOT NULL, n bigint NOT NULL);\n-- key\n" + wait +
		"ALTER TABLE {counter} ADD PRIMARY KEY (scope);\n-- indexes\n" + wait
}

func (slow) Apply(ctx context.Context, _ pgx.Tx, b projections.Batch) error {
	table := &projections.Table[string, slowRow]{
		Name: "counter", Keys: 1,
		Columns: []projections.Column[slowRow]{
			projections.Col("scope", func(r *slowRow) string { return r.scope }), projections.Col("n", func(r *slowRow) int64 { return r.n }),
		},
		New: func(scope string) *slowRow { return &slowRow{scope: scope} },
		Key: func(r *slowRow) string { return r.scope },
		Scan: func(row pgx.CollectableRow) (*slowRow, error) {
			var r slowRow
			err := row.Scan(&r.scope, &r.n)
			return &r, err
		},
	}
	rows := table.Open(b)
	for r := range b.Recorded() {
		rows.Want(string(r.Scope))
	}
	if err := rows.Load(ctx, nil, b); err != nil {
		return err
	}
	for r := range b.Recorded() {
		rows.At(string(r.Scope)).n++
	}
	rows.Store(b)
	return nil
}

type slowRow struct {
	scope string
	n     int64
}

func (slow) Audit(ctx context.Context, q projections.Querier, _ projections.Generation) error {
	var nothing any
	return q.QueryRow(ctx, `SELECT pg_sleep($1)::text`, takes.Seconds()).Scan(&nothing)
}

// TestFillTakesItsTime: what works on a whole table, its key, its indexes and the audit, may take longer than a connection
// is otherwise waited for.
func TestFillTakesItsTime(t *testing.T) {
	log, config := filling(t, slow{})
	log.MaxBatch = 1
	config.Memory = 1 // so that the key is made at the second batch
	settings := config.Pool.Config()
	lifeline.Attach(settings, takes/2, time.Second)
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	config.Pool = pool
	ctx, cancel := context.WithTimeout(t.Context(), 20*takes)
	defer cancel()
	if err := projections.Fill(ctx, config); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `SELECT sum(n)::int FROM counter_2`); n != 7 {
		t.Errorf("%d events are counted, wanted 7", n)
	}
}
