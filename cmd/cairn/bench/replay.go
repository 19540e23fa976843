package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// ReplayOptions bound a benchmark of read models that are filled from the log. Zeros have the default that stands beside them.
type ReplayOptions struct {
	Dir      string    // scratch; a temporary directory, removed afterwards
	Events   int       // in the log: 1,000,000
	Rounds   int       // of the comparisons: 3
	Progress io.Writer // what it is doing; nobody
}

// simple is the model that is measured alone.
const simple = threads.Name

// Replay measures how fast read models are filled from the log on disk: one simple model by the live path and by the bulk
// path, each model alone and all together, against reading and decoding alone and a raw COPY of one row an event alone.
func Replay(ctx context.Context, o ReplayOptions) (report Report, err error) {
	o.Events, o.Rounds = cmp.Or(o.Events, 1_000_000), cmp.Or(o.Rounds, 3)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	r := &replay{ReplayOptions: o}
	if r.cluster, err = postgres.Start(ctx, postgres.Config{Dir: filepath.Join(o.Dir, "postgres")}); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.cluster.Stop()) }()
	r.say("filling a log with %d events", o.Events)
	if r.fabric, err = newFabric(ctx, o.Dir, 500); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.fabric.close()) }()
	if err := r.fabric.fill(ctx, o.Events); err != nil {
		return Report{}, err
	}
	if r.tailer, err = kafka.NewTailer(r.fabric.config); err != nil {
		return Report{}, err
	}
	defer r.tailer.Close()
	if r.end, err = r.tailer.End(ctx, 0); err != nil {
		return Report{}, err
	}
	for _, step := range []func(context.Context) error{r.compare, r.together} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "replay", Machine: ThisMachine(), Figures: r.figures}, nil
}

type replay struct {
	ReplayOptions
	cluster *postgres.Cluster
	fabric  *fabric
	tailer  *kafka.Tailer
	end     int64
	rows    [][]byte // of the simple model, one an event, as COPY takes them
	figures []Figure
	made    int // databases
}

func (r *replay) say(format string, a ...any) { fmt.Fprintf(r.Progress, format+"\n", a...) }
func (r *replay) add(f Figure)                { r.figures = append(r.figures, f) }
func (r *replay) rate(took time.Duration) float64 {
	return float64(r.fabric.events) / took.Seconds()
}

// models are the newest revisions of all read models.
func (r *replay) models(pool *pgxpool.Pool) []projections.Projector {
	db := projections.NewDB(pool)
	return []projections.Projector{
		events.New(db).Projector(), threads.New(db).Projector(), runs.New(db).Projector(), devices.New(db).Projector(),
		requests.New(db).Projector(), openeffects.New(db).Projector(), timers.New(db).Projector(), erasures.New(db).Projector(),
	}
}

// template is what each database is made of: nothing but the read models' tables, empty.
const template = "replay_template"

// database makes an empty one, instead of the one before.
func (r *replay) database(ctx context.Context) (*pgxpool.Pool, error) {
	conn, err := pgx.Connect(ctx, r.cluster.DSN("postgres"))
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if r.made == 0 {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+template); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		if err := migrations.Up(ctx, r.cluster.DSN(template), migrations.Read); err != nil {
			return nil, err
		}
	}
	r.made++
	name := fmt.Sprintf("replay_%d", r.made)
	for _, sql := range []string{
		fmt.Sprintf("DROP DATABASE IF EXISTS replay_%d WITH (FORCE)", r.made-1),
		"CREATE DATABASE " + name + " TEMPLATE " + template,
		"CHECKPOINT", // each begins with nothing of another's to be written
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return pgxpool.New(ctx, r.cluster.DSN(name))
}

var errEnd = errors.New("the end")

// decode reads and decodes everything, and does nothing with it.
func (r *replay) decode(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.tailer.Tail(ctx, 0, streams.Start(), func(_ context.Context, b streams.Batch) error {
		for i := range b.Commits {
			for _, e := range b.Commits[i].Events {
				if _, err := r.fabric.schema.Decode(e); err != nil {
					return err
				}
			}
		}
		if b.Next.Next >= r.end {
			return errEnd
		}
		return nil
	})
	if !errors.Is(err, errEnd) {
		return 0, err
	}
	return time.Since(began), nil
}

// copyRaw copies a row for every event into a table without key and index. The rows are those that the simple model has after
// each event, a hundred thousand of them again and again.
func (r *replay) copyRaw(ctx context.Context) (time.Duration, error) {
	pool, err := r.database(ctx)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `CREATE TABLE raw AS SELECT * FROM threads_1 LIMIT 0`); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	sources := []io.Reader{}
	for left := r.fabric.events; left > 0; left -= len(r.rows) {
		sources = append(sources, bytes.NewReader(bytes.Join(r.rows[:min(left, len(r.rows))], nil)))
	}
	began := time.Now()
	tag, err := conn.Conn().PgConn().CopyFrom(ctx, io.MultiReader(sources...), "COPY raw FROM STDIN")
	if err != nil || int(tag.RowsAffected()) != r.fabric.events {
		return 0, fmt.Errorf("bench: copied %d rows of %d: %w", tag.RowsAffected(), r.fabric.events, err)
	}
	return time.Since(began), nil
}

// live feeds models by the engine, as in production, until they have everything.
func (r *replay) live(ctx context.Context, only ...string) (time.Duration, error) {
	pool, err := r.database(ctx)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	models := slices.DeleteFunc(r.models(pool), func(p projections.Projector) bool {
		return len(only) > 0 && !slices.Contains(only, p.Name())
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lanes := [2]atomic.Int64{}
	level := make(chan struct{}, 8)
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: r.tailer, Schema: r.fabric.schema, Projectors: models, Lanes: len(lanes),
		Observe: func(a projections.Applied) {
			lanes[a.Lane].Store(a.Next)
			if lanes[0].Load() >= r.end && lanes[1].Load() >= r.end {
				level <- struct{}{}
			}
		},
	})
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	select {
	case <-level:
	case <-ctx.Done():
	}
	took := time.Since(began)
	cancel()
	return took, <-done
}

// bulk fills new generations of models, indexes included.
func (r *replay) bulk(ctx context.Context, only ...string) (time.Duration, error) {
	pool, err := r.database(ctx)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	models := r.models(pool)
	if err := projections.Ensure(ctx, pool, models, 2); err != nil {
		return 0, err
	}
	var targets []projections.FillTarget
	for _, p := range models {
		if len(only) > 0 && !slices.Contains(only, p.Name()) {
			continue
		}
		g, err := projections.CreateGeneration(ctx, pool, p)
		if err != nil {
			return 0, err
		}
		targets = append(targets, projections.FillTarget{Projector: p, Generation: g})
	}
	began := time.Now()
	err = projections.Fill(ctx, projections.FillConfig{Pool: pool, Tailer: r.tailer, Schema: r.fabric.schema, Targets: targets})
	took := time.Since(began)
	if err == nil && len(r.rows) == 0 {
		err = r.sample(ctx, pool)
	}
	return took, err
}

// sample takes rows of the simple model, in the text form of COPY, for the raw copy.
func (r *replay) sample(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var out bytes.Buffer
	if _, err := conn.Conn().PgConn().CopyTo(ctx, &out, "COPY threads_2 TO STDOUT"); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
	for n := 0; len(r.rows) < min(100_000, r.fabric.events); n++ {
		r.rows = append(r.rows, []byte(strings.TrimSuffix(lines[n%len(lines)], "\n")+"\n"))
	}
	return nil
}

// added is the rate of doing two things one after the other.
func added(a, b float64) float64 { return 1 / (1/a + 1/b) }

// compare measures the simple model and its limits in turns.
func (r *replay) compare(ctx context.Context) error {
	var decodes, copies, limits, lives, bulks []float64
	if _, err := r.bulk(ctx, simple); err != nil { // a warm-up, from which the raw rows come
		return err
	}
	for round := range r.Rounds {
		rates := make([]float64, 4)
		for i, measure := range []func() (time.Duration, error){
			func() (time.Duration, error) { return r.decode(ctx) },
			func() (time.Duration, error) { return r.copyRaw(ctx) },
			func() (time.Duration, error) { return r.live(ctx, simple) },
			func() (time.Duration, error) { return r.bulk(ctx, simple) },
		} {
			runtime.GC()
			took, err := measure()
			if err != nil {
				return err
			}
			rates[i] = r.rate(took)
		}
		limit := added(rates[0], rates[1])
		decodes, copies, limits = append(decodes, rates[0]), append(copies, rates[1]), append(limits, limit)
		lives, bulks = append(lives, rates[2]), append(bulks, rates[3])
		r.say("round %d of %d: decode %.0f, raw COPY %.0f, both %.0f; %s live %.0f (%.2f), in bulk %.0f (%.2f) events/s", round+1, r.Rounds,
			rates[0], rates[1], limit, simple, rates[2], rates[2]/limit, rates[3], rates[3]/limit)
	}
	const both = "decode, then raw COPY of a row an event"
	r.add(NewFigure("read and decode alone", "events/s", decodes, nil, ""))
	r.add(NewFigure("raw COPY of a row an event alone", "events/s", copies, nil, ""))
	r.add(NewFigure(simple+", live path", "events/s", lives, limits, both).Aim(AtLeast, 0.8))
	r.add(NewFigure(simple+", bulk path", "events/s", bulks, limits, both).Aim(AtLeast, 1.3))
	return nil
}

// together measures every model alone, and all of them.
func (r *replay) together(ctx context.Context) error {
	read, err := r.decode(ctx)
	if err != nil {
		return err
	}
	sum, perEvent := time.Duration(0), func(d time.Duration) float64 {
		return float64(d) / float64(r.fabric.events) / float64(time.Microsecond)
	}
	for _, p := range r.models(nil) {
		took, err := r.bulk(ctx, p.Name())
		if err != nil {
			return err
		}
		sum += took
		r.say("%s alone: %.1f s in bulk", p.Name(), took.Seconds())
		r.add(NewFigure(p.Name()+" alone in bulk, beside reading and decoding", "us/event", []float64{max(0, perEvent(took-read))}, nil, ""))
	}
	var all []float64
	var heap uint64
	for range 2 {
		runtime.GC()
		peak := watchHeap()
		took, err := r.bulk(ctx)
		heap = max(heap, peak())
		if err != nil {
			return err
		}
		all = append(all, took.Seconds())
	}
	r.say("all together: %.1f s in bulk, %.1f s one after the other", Median(all), sum.Seconds())
	r.add(NewFigure("all models together in bulk", "s", all, []float64{sum.Seconds(), sum.Seconds()}, "each alone, added up").Aim(AtMost, 0.5))
	r.add(NewFigure("the same", "events/s", []float64{float64(r.fabric.events) / Median(all)}, nil, ""))
	r.add(NewFigure("the same, heap at most", "MiB", []float64{float64(heap >> 20)}, nil, ""))
	took, err := r.live(ctx)
	if err != nil {
		return err
	}
	r.say("all together by the live path: %.1f s", took.Seconds())
	r.add(NewFigure("all models together, live path", "events/s", []float64{r.rate(took)}, nil, ""))
	return nil
}

// watchHeap samples the heap until the answer is asked for: the highest that was seen, in bytes.
func watchHeap() (peak func() uint64) {
	stop, highest := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			select {
			case <-stop:
				highest <- most
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	return func() uint64 { close(stop); return <-highest }
}
