package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
)

// GrowthOptions bound a benchmark of growth. Zeros have the default that stands beside them.
type GrowthOptions struct {
	Dir      string        // scratch; a temporary directory, removed afterwards
	Events   int           // in the log at the end: 1,000,000; -1: there is no log, and only reads are measured
	Long     int           // of them in one thread: 100,000
	Reads    int           // events in the larger of the two databases whose reads are compared: as many as Events
	Rounds   int           // 5
	Fill     time.Duration // how long filling may take; what is there then is what is measured: 4 minutes
	Watch    time.Duration // how long catching up is watched at least: 5 s
	Progress io.Writer     // what it is doing; nobody
}

// Growth measures that what Cairn does costs the same when there is much of it: an ask on a thread of 100,000 events against
// one on a thread of 10, and a start with 1,000,000 events in the log, with and without the states that the writer stored.
// First it compares what people read in a database of 10,000 events with the same in one of many.
// Everything in the log went through the writer. Writes are not synced: what is measured is not the disk.
func Growth(ctx context.Context, o GrowthOptions) (report Report, err error) {
	o.Events, o.Long, o.Rounds = cmp.Or(o.Events, 1_000_000), cmp.Or(o.Long, 100_000), cmp.Or(o.Rounds, 5)
	o.Reads = cmp.Or(o.Reads, o.Events)
	o.Fill, o.Watch = cmp.Or(o.Fill, 4*time.Minute), cmp.Or(o.Watch, 5*time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	g := &growth{GrowthOptions: o}
	if o.Events < 0 { // reads alone
		err := g.reads(ctx)
		return Report{Bench: "growth", Machine: ThisMachine(), Figures: g.figures}, err
	}
	for _, step := range []func(context.Context) error{g.reads, g.fillLog, g.restarts, g.catchUp, g.withoutStates} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "growth", Machine: ThisMachine(), Figures: g.figures}, nil
}

type growth struct {
	GrowthOptions
	figures []Figure
	long    *talk
	events  int
	quiet   float64 // an ask's p50 in ms, with the writer alone
}

func (g *growth) say(format string, a ...any) { fmt.Fprintf(g.Progress, format+"\n", a...) }

func (g *growth) add(f Figure) { g.figures = append(g.figures, f) }

// data is where the growing Cairn keeps everything.
func (g *growth) data() string { return filepath.Join(g.Dir, "cairn") }

// running is a start, and what it took until an ask was answered.
type running struct {
	*app.App
	ready, replay time.Duration
	replayed      int64
}

// start starts Cairn on what is there and asks something of the long thread.
func (g *growth) start(ctx context.Context, roles ...string) (*running, error) {
	config := embeddedConfig(g.data(), roles)
	config.NoSync = true
	began := time.Now()
	a, err := app.Start(ctx, config, "bench", app.NewLog(config, g.Progress))
	if err != nil {
		return nil, err
	}
	r := &running{App: a}
	if g.long != nil {
		if err := g.long.rename(ctx, a.Asker()); err != nil {
			a.Stop()
			return nil, err
		}
	}
	r.ready = time.Since(began)
	for _, s := range a.Writing() {
		r.replayed, r.replay = r.replayed+s.Replayed, max(r.replay, s.ReplayTook)
	}
	return r, nil
}

// fillLog makes the events, and measures asks on long and short threads.
func (g *growth) fillLog(ctx context.Context) error {
	g.say("starting Cairn, and filling its log with %d events, %d of them in one thread", g.Events, g.Long)
	r, err := g.start(ctx, app.RoleWriter)
	if err != nil {
		return err
	}
	defer r.Stop()
	began := time.Now()
	if err := g.fill(ctx, r.Asker()); err != nil {
		return err
	}
	g.say("%d events after %.0f s; the long thread has %d", g.events, time.Since(began).Seconds(), g.long.version)
	g.add(NewFigure("events in the log", "events", []float64{float64(g.events)}, nil, ""))
	g.add(NewFigure("events in the long thread", "events", []float64{float64(g.long.version)}, nil, ""))
	return g.compare(ctx, r.Asker())
}

// restarts starts everything on the log, as after any stop.
func (g *growth) restarts(ctx context.Context) error {
	var ready, replay []float64
	for range 3 {
		r, err := g.start(ctx, app.RoleWriter, app.RoleAPI)
		if err != nil {
			return err
		}
		r.Stop()
		g.say("restart: an ask is answered after %.1f s; replay of %d records took %s", r.ready.Seconds(), r.replayed, r.replay)
		ready, replay = append(ready, r.ready.Seconds()), append(replay, r.replay.Seconds())
	}
	g.add(NewFigure("restart until an ask is answered", "s", ready, nil, "").Aim(AtMost, readyGoal))
	g.add(NewFigure("of it replay, states stored", "s", replay, nil, ""))
	return nil
}

// readyGoal is how many seconds a start may take.
const readyGoal = 10

// catchUp starts all roles: the read models have nothing yet, and asks must not wait for them.
func (g *growth) catchUp(ctx context.Context) error {
	r, err := g.start(ctx, app.AllRoles()...)
	if err != nil {
		return err
	}
	defer r.Stop()
	g.say("start with read models that have everything to read: an ask is answered after %.1f s", r.ready.Seconds())
	g.add(NewFigure("the same, with all read models empty", "s", []float64{r.ready.Seconds()}, nil, "").Aim(AtMost, readyGoal))
	began, from := time.Now(), int64(0)
	if from, err = g.read(ctx); err != nil {
		return err
	}
	var asks, limits []float64
	for range g.Rounds {
		p50, err := g.long.measure(ctx, r.Asker(), 100)
		if err != nil {
			return err
		}
		asks, limits = append(asks, p50), append(limits, g.quiet)
	}
	wait := time.NewTimer(max(0, g.Watch-time.Since(began)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	to, err := g.read(ctx)
	if err != nil {
		return err
	}
	rate := float64(to-from) / time.Since(began).Seconds()
	g.say("read models catch up with %.0f events/s; an ask takes %.2f ms meanwhile", rate, Median(asks))
	g.add(NewFigure("ask while read models catch up, p50", "ms", asks, limits, "with the writer alone"))
	g.add(NewFigure("read models catch up", "events/s", []float64{rate}, nil, ""))
	return nil
}

// database connects to the read side of the running Cairn.
func (g *growth) database(ctx context.Context) (*pgx.Conn, error) {
	attached, _, err := embeddedConfig(g.data(), nil).Attach()
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, attached.DatabaseURL)
}

// read is how many events the read models have.
func (g *growth) read(ctx context.Context) (n int64, err error) {
	conn, err := g.database(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&n)
	return n, err
}

// withoutStates is a start after everything that the writer stored was lost: it replays the whole log.
func (g *growth) withoutStates(ctx context.Context) error {
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(g.data(), "postgres")})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, cluster.DSN(migrations.Read.Name()))
	if err == nil {
		_, err = conn.Exec(ctx, `TRUNCATE writer_checkpoints, writer_states, writer_scopes, answers`)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err = errors.Join(err, cluster.Stop()); err != nil {
		return err
	}
	r, err := g.start(ctx, app.RoleWriter)
	if err != nil {
		return err
	}
	defer r.Stop()
	g.say("start without stored states: an ask is answered after %.1f s; replay of %d records took %s", r.ready.Seconds(), r.replayed, r.replay)
	g.add(NewFigure("start after the stored states were lost", "s", []float64{r.ready.Seconds()}, nil, ""))
	g.add(NewFigure("of it replay of the whole log", "s", []float64{r.replay.Seconds()}, nil, ""))
	g.add(NewFigure("replay", "events/s", []float64{float64(g.events) / r.replay.Seconds()}, nil, ""))
	return nil
}
