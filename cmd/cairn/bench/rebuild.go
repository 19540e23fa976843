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
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
)

// RebuildOptions bound a benchmark of rebuilding. Zeros have the default that stands beside them.
type RebuildOptions struct {
	Dir      string        // scratch; a temporary directory, removed afterwards
	Binary   string        // the program; this one
	Events   int           // in the log: 1,000,000
	Reads    float64       // a second: 200
	Writes   float64       // a second: 50
	Quiet    time.Duration // how long is measured without a rebuild, before and after: 20 s
	Progress io.Writer     // what it is doing; nobody
}

// Rebuild measures what people notice while all read models are rebuilt: they read and write over HTTP all the while, and every
// answer is checked against what was acknowledged and what was shown before. The rebuilder is a process of its own and is killed
// twice with SIGKILL. Then everything is rolled back, and swapped once more.
func Rebuild(ctx context.Context, o RebuildOptions) (report Report, err error) {
	r, err := newRebuildBench(&o)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, step := range []func(context.Context) error{r.fillLog, r.start, r.underLoad} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "rebuild", Machine: ThisMachine(), Figures: r.figures}, nil
}

type rebuildBench struct {
	RebuildOptions
	own     bool // the directory is ours
	config  app.Config
	crowd   *crowd
	served  *served
	figures []Figure
}

func newRebuildBench(o *RebuildOptions) (r *rebuildBench, err error) {
	o.Events, o.Reads, o.Writes, o.Quiet = cmp.Or(o.Events, 1_000_000), cmp.Or(o.Reads, 200), cmp.Or(o.Writes, 50), cmp.Or(o.Quiet, 20*time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Binary == "" {
		if o.Binary, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	r = &rebuildBench{crowd: newCrowd()}
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return nil, err
		}
		r.own = true
	}
	r.RebuildOptions, r.config = *o, embeddedConfig(filepath.Join(o.Dir, "cairn"), nil)
	return r, nil
}

func (r *rebuildBench) close() (err error) {
	if r.served != nil {
		err = r.served.stop()
	}
	if r.own {
		err = errors.Join(err, os.RemoveAll(r.Dir))
	}
	return err
}

func (r *rebuildBench) say(format string, a ...any) { fmt.Fprintf(r.Progress, format+"\n", a...) }

func (r *rebuildBench) add(f Figure) { r.figures = append(r.figures, f) }

// count adds a figure that was not measured more than once.
func (r *rebuildBench) count(name, unit string, value float64) Figure {
	return NewFigure(name, unit, []float64{value}, nil, "")
}

// fillLog lets people talk until the log has its events. Everything goes through the writer; nothing is synced, for what is
// measured is not the disk.
func (r *rebuildBench) fillLog(ctx context.Context) error {
	r.say("starting Cairn, and filling its log with %d events of %d people", r.Events, accountsInCrowd)
	config := r.config
	config.NoSync, config.Roles = true, []string{app.RoleAPI, app.RoleWriter}
	a, err := app.Start(ctx, config, "bench", app.NewLog(config, r.Progress))
	if err != nil {
		return err
	}
	defer a.Stop()
	if err := r.crowd.register(ctx, a.URL()); err != nil {
		return err
	}
	began := time.Now()
	made, err := r.crowd.live(ctx, a.Asker(), r.Events, func(n int64) { r.say("%d events", n) })
	if err != nil {
		return err
	}
	r.say("%d events after %.0f s", made, time.Since(began).Seconds())
	r.add(r.count("events in the log", "events", float64(made)))
	return nil
}

// start serves the log, and waits until the read models have it.
func (r *rebuildBench) start(ctx context.Context) (err error) {
	// What is broken off here goes on when it is asked for here: the worker in the background would only make it hard to tell who.
	if r.served, err = serve(ctx, r.Binary, r.config, "CAIRN_REBUILD_SWAP=manual"); err != nil {
		return err
	}
	began := time.Now()
	if err := r.level(ctx); err != nil {
		return err
	}
	r.say("the read models have it all after %.0f s", time.Since(began).Seconds())
	return r.crowd.login(ctx, r.served.url)
}

// database connects to the read side.
func (r *rebuildBench) database(ctx context.Context) (*pgx.Conn, error) {
	attached, _, err := r.config.Attach()
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, attached.DatabaseURL)
}

// level waits until all generations have what is in the log.
func (r *rebuildBench) level(ctx context.Context) error {
	conn, err := r.database(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		lags, err := projections.Lags(ctx, conn)
		if err != nil {
			return err
		}
		behind := len(lags) == 0
		for _, l := range lags {
			behind = behind || l.Offsets > 0
		}
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.served.ended:
			return fmt.Errorf("bench: Cairn ended: %s", r.served.output.String())
		case <-tick.C:
		}
	}
}

// underLoad lets people read and write while everything is measured.
func (r *rebuildBench) underLoad(ctx context.Context) error {
	reads, writes := &load{rate: r.Reads, ask: r.crowd.read}, &load{rate: r.Writes, ask: r.crowd.write}
	loading, quiet := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return reads.run(loading) })
	group.Go(func() error { return writes.run(loading) })
	err := r.measure(ctx, reads, writes)
	quiet()
	if err = errors.Join(err, group.Wait()); err != nil {
		if _, _, _, first := reads.faults(); first != nil {
			err = fmt.Errorf("%w (and of the reads: %w)", err, first)
		}
		return err
	}
	return r.judge(reads, writes)
}

// pass lets time pass.
func pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (r *rebuildBench) measure(ctx context.Context, reads, writes *load) error {
	if err := pass(ctx, r.Quiet/4); err != nil { // a warm-up, which does not count
		return err
	}
	reads.fresh()
	writes.fresh()
	if err := pass(ctx, r.Quiet); err != nil {
		return err
	}
	readsBefore, writesBefore := reads.fresh(), writes.fresh()
	r.say("without a rebuild: p99 of %d reads %.1f ms, of %d writes %.1f ms", len(readsBefore), quantile(readsBefore, 0.99), len(writesBefore), quantile(writesBefore, 0.99))
	began := time.Now()
	rebuilt, err := r.rebuildTwiceKilled(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	readsDuring, writesDuring := reads.fresh(), writes.fresh()
	r.say("during the rebuild, %.0f s: p99 of %d reads %.1f ms, of %d writes %.1f ms", took.Seconds(), len(readsDuring), quantile(readsDuring, 0.99), len(writesDuring), quantile(writesDuring, 0.99))
	if err := r.backAndForth(ctx); err != nil {
		return err
	}
	reads.fresh()
	writes.fresh()
	if err := pass(ctx, r.Quiet); err != nil {
		return err
	}
	readsAfter, writesAfter := reads.fresh(), writes.fresh()
	clean := 0
	for _, one := range rebuilt {
		if one.Clean && one.Swapped {
			clean++
		}
	}
	r.add(r.count("read models rebuilt at once, verified clean and swapped", "models", float64(clean)).Aim(AtLeast, float64(len(projections.Names(app.Projectors(nil))))))
	r.add(r.count("the rebuild, killed twice by SIGKILL", "s", took.Seconds()))
	const without = "without a rebuild, before and after"
	p99 := func(sorted []time.Duration) float64 { return quantile(sorted, 0.99) }
	r.add(NewFigure("reads during the rebuild, p50", "ms", []float64{quantile(readsDuring, 0.5)}, []float64{(quantile(readsBefore, 0.5) + quantile(readsAfter, 0.5)) / 2}, without))
	r.add(NewFigure("reads during the rebuild, p99", "ms", []float64{p99(readsDuring)}, []float64{(p99(readsBefore) + p99(readsAfter)) / 2}, without))
	r.add(NewFigure("writes during the rebuild, p99", "ms", []float64{p99(writesDuring)}, []float64{(p99(writesBefore) + p99(writesAfter)) / 2}, without))
	return nil
}

// judge says what was wrong.
func (r *rebuildBench) judge(reads, writes *load) error {
	made, mixed, failed, first := reads.faults()
	r.add(r.count("reads", "reads", float64(made)))
	r.add(r.count("of them failed", "reads", float64(failed)).Aim(AtMost, 0))
	r.add(r.count("of them showing what can't be, as mixed or old generations would", "reads", float64(mixed)).Aim(AtMost, 0))
	if first != nil {
		r.say("the first wrong read: %s", first)
	}
	made, mixed, failed, first = writes.faults()
	r.add(r.count("writes", "writes", float64(made)))
	r.add(r.count("of them failed", "writes", float64(failed+mixed)).Aim(AtMost, 0))
	if first != nil {
		r.say("the first failed write: %s", first)
	}
	return nil
}

// rebuildTwiceKilled rebuilds everything, in three processes: the first two are killed.
func (r *rebuildBench) rebuildTwiceKilled(ctx context.Context) ([]rebuiltLine, error) {
	for i, share := range []float64{0.3, 0.65} {
		killed, err := startRebuild(r.Binary, r.config)
		if err != nil {
			return nil, err
		}
		at, err := killed.killAt(ctx, share)
		if err != nil {
			return nil, err
		}
		r.say("rebuilder %d was killed at %.0f %%", i+1, 100*at)
		r.add(r.count(fmt.Sprintf("rebuilder %d killed at", i+1), "%", 100*at))
	}
	last, err := startRebuild(r.Binary, r.config)
	if err != nil {
		return nil, err
	}
	return last.wait(ctx)
}

// backAndForth lets the old generations be read again, and the new ones once more, and compares them.
func (r *rebuildBench) backAndForth(ctx context.Context) error {
	names := projections.Names(app.Projectors(nil))
	for _, step := range []string{"rollback", "swap", "verify"} {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		for _, name := range names {
			cmd := command(r.Binary, r.config, "projections", step, name)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("bench: %s %s: %w: %s", step, name, err, out)
			}
		}
		r.say("%s of %d read models: %.1f s", step, len(names), time.Since(began).Seconds())
	}
	r.add(r.count("rolled back, swapped again and verified", "models", float64(len(names))))
	return nil
}
