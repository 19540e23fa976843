package projections_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// brittle is a log whose tails break off after some batches.
type brittle struct {
	*logtest.Log
	after func() int
}

var errBrokeOff = errors.New("the tail broke off")

// Tail implements streams.Tailer.
func (b brittle) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	left := b.after()
	return b.Log.Tail(ctx, partition, from, func(ctx context.Context, batch streams.Batch) error {
		if left--; left < 0 {
			return errBrokeOff
		}
		return handle(ctx, batch)
	})
}

// targets makes the next generation of every projection.
func targets(t testing.TB, pool *pgxpool.Pool, projectors []projections.Projector) []projections.FillTarget {
	t.Helper()
	var all []projections.FillTarget
	for _, p := range projectors {
		g, err := projections.CreateGeneration(t.Context(), pool, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, projections.FillTarget{Projector: p, Generation: g})
	}
	return all
}

// rowsOf are the rows of generations by the plain names of their tables.
func rowsOf(t testing.TB, pool *pgxpool.Pool, generations []projections.Generation) string {
	t.Helper()
	var out strings.Builder
	for _, g := range generations {
		for _, table := range g.Tables {
			out.WriteString(strings.ReplaceAll(dump(t.Context(), t, pool, g.Table(table)), g.Table(table), table))
		}
	}
	return out.String()
}

func generations(t testing.TB, pool *pgxpool.Pool) (live, others []projections.Generation) {
	t.Helper()
	all, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if g.Live {
			live = append(live, g)
		} else {
			others = append(others, g)
		}
	}
	return live, others
}

// TestFilledEqualsLive: whatever is in the log, however little memory there is, and wherever filling breaks off and is called
// again, the new generation has what the live one has; and so it stays when both are fed.
func TestFilledEqualsLive(t *testing.T) {
	for round := range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			log := logtest.New(2)
			pool := pgtest.Read(t)
			at := time.Unix(1_800_000_000, 0)
			rapidly := rapid.Custom(func(r *rapid.T) any { return drawEvent(r) })
			for i := range 150 {
				log.SetTime(at.Add(time.Duration(i) * time.Second))
				scope := domain.Scope(fmt.Sprintf("user-%d", random.IntN(6)))
				if i%40 == 39 {
					log.Append(scope, logtest.On("account-a", account.Erased{})...)
					continue
				}
				var events []any
				for range random.IntN(4) {
					events = append(events, rapidly.Example(random.IntN(1<<30)))
				}
				log.Append(scope, logtest.On(domain.Stream(fmt.Sprintf("thread-%d", random.IntN(3))), events...)...)
			}
			stop := start(t, pool, log, models(pool))
			waitLevel(t, pool, log, models(pool)...)
			stop()
			log.MaxBatch = 1 + random.IntN(20)
			config := projections.FillConfig{Pool: pool, Schema: logtest.Schema(), Targets: targets(t, pool, models(pool))}
			config.Memory = []int64{1, 40_000, 0}[round]
			broke := 0
			config.Tailer = brittle{log, func() int { return random.IntN(8) }}
			err := projections.Fill(t.Context(), config)
			for ; errors.Is(err, errBrokeOff) && broke < 20; broke++ {
				err = projections.Fill(t.Context(), config)
			}
			if errors.Is(err, errBrokeOff) { // with memory enough for all, nothing is written before the end
				config.Tailer = log
				err = projections.Fill(t.Context(), config)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("it broke off %d times", broke)
			live, filled := generations(t, pool)
			equal(t, "filled and live", rowsOf(t, pool, filled), rowsOf(t, pool, live))
			for _, g := range filled {
				if g.State != projections.Feeding {
					t.Errorf("%s is %s", g, g.State)
				}
			}
			start(t, pool, log, models(pool))
			for i := range 20 {
				chat(log, domain.Scope(fmt.Sprintf("user-%d", random.IntN(6))), "thread-1", fmt.Sprint("late", i))
			}
			waitLevel(t, pool, log)
			equal(t, "fed and live", rowsOf(t, pool, filled), rowsOf(t, pool, live))
		})
	}
}

// waitLevel waits until every lane of every generation that is fed has everything, and the live ones of projections are fed.
func waitLevel(t testing.TB, pool *pgxpool.Pool, log *logtest.Log, projectors ...projections.Projector) {
	t.Helper()
	eventually(t, func() error {
		states, err := projections.List(t.Context(), pool)
		if err != nil {
			return err
		}
		for _, p := range projectors {
			if !slices.ContainsFunc(states, func(s projections.State) bool { return s.Live && s.Projection == p.Name() }) {
				return fmt.Errorf("%s is not fed", p.Name())
			}
		}
		for _, s := range states {
			if end := int64(len(log.Commits(s.Partition))); s.Checkpoint.Next < end {
				return fmt.Errorf("%s %d, lane %d of partition %d, stands at %d of %d", s.Projection, s.Generation, s.Lane, s.Partition, s.Checkpoint.Next, end)
			}
		}
		return nil
	})
}

// TestFillTellsHowFarItIs: monotonic, to the end, at the rate that was asked for.
func TestFillTellsHowFarItIs(t *testing.T) {
	log := logtest.New(1)
	log.MaxBatch = 5
	pool := pgtest.Read(t)
	for i := range 20 {
		chat(log, scope, "thread-a", fmt.Sprint("run", i))
	}
	if err := projections.Ensure(t.Context(), pool, models(pool), 1); err != nil {
		t.Fatal(err)
	}
	var told []projections.Progress
	began := time.Now()
	err := projections.Fill(t.Context(), projections.FillConfig{
		Pool: pool, Tailer: log, Schema: logtest.Schema(), Targets: targets(t, pool, models(pool)[:1]), MaxRate: 100,
		Progress: func(p projections.Progress) { told = append(told, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("140 events at 100 a second took %s", took)
	}
	for i, p := range told[1:] {
		if p.Done < told[i].Done || p.Total != 60 {
			t.Errorf("after %+v came %+v", told[i], p)
		}
	}
	if last := told[len(told)-1]; last.Done != 60 || last.Events != 140 || last.Rows != 140 || last.Phase != projections.Feeding {
		t.Errorf("the last is %+v", last)
	}
}

// TestFillStopsAtAPoisonedEvent: it says which, shows it, and goes on past it once an operator skipped it.
func TestFillStopsAtAPoisonedEvent(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	chat(log, scope, "thread-a", "fine")
	bad := log.AppendRaw(scope, func(c *streams.Commit) { c.Events[1].Type = "thread.of_the_future" }, logtest.On("thread-a", thread.Titled{}, thread.Titled{})...)
	chat(log, scope, "thread-a", "fine2")
	all := models(pool)
	if err := projections.Ensure(t.Context(), pool, all, 2); err != nil {
		t.Fatal(err)
	}
	config := projections.FillConfig{Pool: pool, Tailer: log, Schema: logtest.Schema(), Targets: targets(t, pool, all[1:2])}
	name := all[1].Name()
	var stopped *projections.Stopped
	if err := projections.Fill(t.Context(), config); !errors.As(err, &stopped) || stopped.Event != bad.Events[1].ID || stopped.Offset != bad.Place.Offset {
		t.Fatalf("it answered %v", err)
	}
	if _, err := projections.Skip(t.Context(), pool, all, name, 0, "ann", "it is of another program"); err != nil {
		t.Fatal(err)
	}
	if err := projections.Fill(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	// The live generation steps over it, too, and has the other event of that commit.
	start(t, pool, log, all[1:2])
	waitLevel(t, pool, log, all[1])
	live, filled := generations(t, pool)
	equal(t, "filled and live", rowsOf(t, pool, filled), rowsOf(t, pool, projections.Of(live, name)))
	var title int64
	if err := pool.QueryRow(t.Context(), `SELECT title_version FROM threads`).Scan(&title); err != nil || title != int64(bad.Events[0].Version) {
		t.Fatalf("the title is that of version %d: %v", title, err)
	}
}

// TestFillOfAProjectorThatWritesItself: one that works in transactions is filled too.
func TestFillOfAProjectorThatWritesItself(t *testing.T) {
	log := logtest.New(1)
	log.MaxBatch = 2
	pool := pgtest.Read(t)
	for i := range 10 {
		chat(log, scope, "thread-a", fmt.Sprint("run", i))
	}
	p := []projections.Projector{counter{}}
	stop := start(t, pool, log, p)
	waitLevel(t, pool, log, p...)
	stop()
	if err := projections.Fill(t.Context(), projections.FillConfig{Pool: pool, Tailer: log, Schema: logtest.Schema(), Targets: targets(t, pool, p)}); err != nil {
		t.Fatal(err)
	}
	live, filled := generations(t, pool)
	equal(t, "filled and live", rowsOf(t, pool, filled), rowsOf(t, pool, projections.Of(live, "counter")))
}

// counter counts a scope's events, in SQL.
type counter struct{}

func (counter) Name() string  { return "counter" }
func (counter) Revision() int { return 1 }
func (counter) Shape() string {
	return "-- tables\nCREATE TABLE {counter} (scope text NOT NULL, n bigint NOT NULL);\n-- key\nALTER TABLE {counter} ADD PRIMARY KEY (scope);\n-- indexes\n"
}

func (counter) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	for r := range b.Recorded() {
		b.Queue(`INSERT INTO {counter} AS t VALUES ($1, 1) ON CONFLICT (scope) DO UPDATE SET n = t.n + 1`, string(r.Scope))
	}
	return nil
}
