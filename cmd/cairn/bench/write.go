package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// Options bound a benchmark of writing. Zeros have the default that stands beside them.
type Options struct {
	Dir       string        // scratch; a temporary directory, removed afterwards
	Rounds    int           // turns of each kind: 5
	Turn      time.Duration // how long a turn is: 1 s
	Askers    []int         // 1, 16, 64
	Saturated int           // askers that saturate: 2,048
	Synced    []bool        // without and with synced writes
	Progress  io.Writer     // what it is doing; nobody
}

func (o Options) complete() Options {
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Turn == 0 {
		o.Turn = time.Second
	}
	if len(o.Askers) == 0 {
		o.Askers = []int{1, 16, 64}
	}
	if len(o.Synced) == 0 {
		o.Synced = []bool{false, true}
	}
	if o.Saturated == 0 {
		o.Saturated = 2048
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// Write measures asks: how many a second, and how long one takes, at 1, 16 and 64 askers and saturated, with and without
// synced writes, in turns with callers that append the same commits directly.
func Write(ctx context.Context, options Options) (report Report, err error) {
	options = options.complete()
	if options.Dir == "" {
		if options.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(options.Dir)) }()
	}
	report = Report{Bench: "write", Machine: ThisMachine()}
	for _, synced := range options.Synced {
		figures, err := writeMode(ctx, options, synced)
		if err != nil {
			return report, err
		}
		report.Figures = append(report.Figures, figures...)
	}
	return report, nil
}

func writeMode(ctx context.Context, options Options, synced bool) (figures []Figure, err error) {
	mode := "unsynced"
	if synced {
		mode = "synced"
	}
	fmt.Fprintf(options.Progress, "%s: starting Postgres, the broker, a writer and an asker\n", mode)
	dir := filepath.Join(options.Dir, mode)
	states, stopDatabase, err := database(ctx, filepath.Join(dir, "postgres"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopDatabase()) }()
	r, err := startRing(ctx, dir, synced, states)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return levels(ctx, options, r, mode, func(int) bool { return synced })
}

// levels measures a ring at each number of askers, and saturated. Against says at which of them a synced produce is what an
// ask is held against.
func levels(ctx context.Context, options Options, r *ring, mode string, against func(askers int) bool) ([]Figure, error) {
	all := make([]*asker, options.Saturated)
	var opening errgroup.Group
	opening.SetLimit(64)
	for i := range all {
		opening.Go(func() (err error) {
			all[i], err = r.newAsker(ctx)
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	var figures []Figure
	for _, n := range append(slices.Clone(options.Askers), options.Saturated) {
		level, err := measureLevel(ctx, options, all[:n], against(n))
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s, %d askers", mode, n)
		switch n {
		case 1:
			name = mode + ", 1 asker"
		case options.Saturated:
			name = mode + ", saturated"
		}
		figures = append(figures, level.figures(name, n, options.Saturated, against(n))...)
		fmt.Fprintf(options.Progress, "%s: %.0f asks/s, direct %.0f/s\n", name, Median(level.ring.rate), Median(level.direct.rate))
	}
	return figures, nil
}

// series are the turns of one kind.
type series struct{ rate, p50, p99, cpu []float64 }

type level struct{ ring, lookedUp, direct, produce series }

// measureLevel takes turns: direct, ring, direct, ring, …, after one of each that does not count. The ring is asked with
// ids minted for the ask, and with ids that clients gave, which are looked up in Postgres first.
func measureLevel(ctx context.Context, options Options, askers []*asker, synced bool) (level, error) {
	var l level
	kinds := []struct {
		into *series
		do   func(*asker, context.Context, streams.Command) error
	}{
		{&l.direct, func(a *asker, ctx context.Context, c streams.Command) error { return a.caller.ask(ctx, c) }},
		{&l.ring, func(a *asker, ctx context.Context, c streams.Command) error {
			_, err := a.ring.asker.Ask(ctx, c)
			return err
		}},
		{&l.lookedUp, func(a *asker, ctx context.Context, c streams.Command) error {
			c.Minted = false
			_, err := a.ring.asker.Ask(ctx, c)
			return err
		}},
		{&l.produce, func(a *asker, ctx context.Context, c streams.Command) error { return a.caller.produceOnly(ctx, c) }},
	}
	if len(askers) > 1 || !synced {
		kinds = kinds[:3]
	}
	for round := range options.Rounds + 1 {
		for _, kind := range kinds {
			length := options.Turn
			if round == 0 {
				length = min(length, 300*time.Millisecond)
			}
			s, err := turn(ctx, length, askers, kind.do)
			if err != nil {
				return l, err
			}
			if round > 0 {
				kind.into.rate = append(kind.into.rate, s.rate)
				kind.into.p50 = append(kind.into.p50, s.p50)
				kind.into.p99 = append(kind.into.p99, s.p99)
				kind.into.cpu = append(kind.into.cpu, s.cpu)
			}
		}
	}
	return l, nil
}

type sample struct{ rate, p50, p99, cpu float64 }

// turn lets the askers ask one after the other, each on its own, for a while.
func turn(ctx context.Context, length time.Duration, askers []*asker, do func(*asker, context.Context, streams.Command) error) (sample, error) {
	took := make([][]time.Duration, len(askers))
	began, worked := time.Now(), processTime()
	var group errgroup.Group
	for i, a := range askers {
		group.Go(func() error {
			for now := time.Now(); now.Sub(began) < length; {
				if err := do(a, ctx, a.rename()); err != nil {
					return err
				}
				end := time.Now()
				took[i] = append(took[i], end.Sub(now))
				now = end
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	elapsed, worked := time.Since(began).Seconds(), processTime()-worked
	all := slices.Concat(took...)
	slices.Sort(all)
	at := func(share float64) float64 {
		return float64(all[min(len(all)-1, int(share*float64(len(all))))]) / float64(time.Millisecond)
	}
	return sample{
		rate: float64(len(all)) / elapsed, p50: at(0.50), p99: at(0.99),
		cpu: float64(worked.Microseconds()) / float64(len(all)),
	}, nil
}

// processTime is how long this process has used processors: what an ask costs, however busy the machine is.
func processTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// figures are those of a level, with the goals that are set for it.
func (l level) figures(name string, n, saturated int, synced bool) []Figure {
	rate := NewFigure(name, "asks/s", l.ring.rate, l.direct.rate, "direct")
	p50 := NewFigure(name+", p50", "ms", l.ring.p50, l.direct.p50, "direct")
	p99 := NewFigure(name+", p99", "ms", l.ring.p99, l.direct.p99, "direct")
	switch {
	case n == saturated:
		rate = rate.Aim(AtLeast, 0.6)
	case n == 64:
		rate = rate.Aim(AtLeast, 0.5)
	case n == 1 && synced:
		p50 = NewFigure(name+", p50", "ms", l.ring.p50, l.produce.p50, "one synced produce").Aim(AtMost, 2.2)
	case n == 1:
		p50 = p50.Aim(AtMost, 2.7)
	}
	cpu := NewFigure(name+", processor time", "µs/ask", l.ring.cpu, l.direct.cpu, "direct")
	return []Figure{
		rate, p50, p99, cpu,
		NewFigure(name+", ids looked up", "asks/s", l.lookedUp.rate, l.direct.rate, "direct"),
		NewFigure(name+", ids looked up, p50", "ms", l.lookedUp.p50, l.direct.p50, "direct"),
	}
}
