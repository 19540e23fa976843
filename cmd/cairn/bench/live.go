package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// LiveOptions bound a benchmark of the lag of read models. Zeros have the default that stands beside them.
type LiveOptions struct {
	Dir      string        // scratch; a temporary directory, removed afterwards
	Length   time.Duration // of each rate: 10 s
	Progress io.Writer     // what it is doing; nobody
}

// The rates at which the lag is told, and those that are tried for the highest that stays bounded, in events a second.
var (
	liveRates  = []int{500, 5_000}
	liveLadder = []int{1_000, 2_000, 3_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 45_000, 65_000}
)

// Live measures the lag of all read models: from the log's acknowledgement of a commit until its rows are there to read, at
// steady rates, and the highest rate at which it does not grow.
func Live(ctx context.Context, o LiveOptions) (report Report, err error) {
	o.Length = cmp.Or(o.Length, 10*time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(o.Dir, "postgres")})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	dsn := cluster.DSN(migrations.Read.Name())
	if err := migrations.Up(ctx, dsn, migrations.Read); err != nil {
		return Report{}, err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	defer pool.Close()
	l := &live{LiveOptions: o}
	if l.fabric, err = newFabric(ctx, o.Dir, 500); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.fabric.close()) }()
	tailer, err := kafka.NewTailer(l.fabric.config)
	if err != nil {
		return Report{}, err
	}
	defer tailer.Close()
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: tailer, Schema: l.fabric.schema, Projectors: (&replay{}).models(pool), Lanes: len(l.waiting), Observe: l.applied,
	})
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- engine.Run(running) }()
	defer func() { end(); err = errors.Join(err, <-done) }()
	figures, err := l.measure(ctx)
	return Report{Bench: "live", Machine: ThisMachine(), Figures: figures}, err
}

// live matches what was acknowledged with what is there to read.
type live struct {
	LiveOptions
	fabric *fabric

	mu      sync.Mutex
	waiting [2][]sent       // by lane, in the order of their offsets
	applies [2]int64        // by lane, the offset that is read next
	lags    []time.Duration // of commits, in the order in which they became visible
}

// sent is a commit that was acknowledged and is not visible yet.
type sent struct {
	offset int64
	at     time.Time
}

// acked notes an acknowledgement.
func (l *live) acked(lane int, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < l.applies[lane] { // it was there to read before its own writer heard of it
		l.lags = append(l.lags, 0)
		return
	}
	l.waiting[lane] = append(l.waiting[lane], sent{offset, time.Now()})
}

// applied is the engine's Observe.
func (l *live) applied(a projections.Applied) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applies[a.Lane] = a.Next
	queue := l.waiting[a.Lane]
	n := 0
	for ; n < len(queue) && queue[n].offset < a.Next; n++ {
		l.lags = append(l.lags, now.Sub(queue[n].at))
	}
	l.waiting[a.Lane] = queue[n:]
}

// at appends at a rate for a while, and answers the lags of the commits, and how many are not visible at the end.
func (l *live) at(ctx context.Context, perSecond int, length time.Duration) (lags []time.Duration, left int, reached float64, err error) {
	l.mu.Lock()
	l.lags = nil
	l.mu.Unlock()
	limit := rate.NewLimiter(rate.Limit(perSecond), max(16, perSecond/100))
	began, before := time.Now(), l.fabric.events
	for time.Since(began) < length {
		err := l.fabric.talk(func(c streams.Commit) error {
			if err := limit.WaitN(ctx, max(1, len(c.Events))); err != nil {
				return err
			}
			lane := projections.LaneOf(c.Scope, len(l.waiting))
			return l.fabric.append(ctx, c, func(offset int64) { l.acked(lane, offset) })
		})
		if err != nil {
			return nil, 0, 0, err
		}
	}
	reached = float64(l.fabric.events-before) / time.Since(began).Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range l.waiting {
		left += len(queue)
	}
	return l.lags, left, reached, nil
}

// settle waits until everything is visible.
func (l *live) settle(ctx context.Context) error {
	if err := l.fabric.client.Flush(ctx); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		left := len(l.waiting[0]) + len(l.waiting[1])
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// bounded is the lag that may not be exceeded, and not be reached by growing.
const bounded = time.Second

func (l *live) measure(ctx context.Context) (figures []Figure, err error) {
	if _, _, _, err := l.at(ctx, 500, min(l.Length, 2*time.Second)); err != nil { // a warm-up
		return nil, err
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	for _, r := range liveRates {
		lags, _, reached, err := l.at(ctx, r, l.Length)
		if err != nil {
			return nil, err
		}
		if err := l.settle(ctx); err != nil {
			return nil, err
		}
		if slices.Sort(lags); len(lags) == 0 {
			return nil, fmt.Errorf("bench: at %d events/s nothing became visible within %s", r, l.Length)
		}
		fmt.Fprintf(l.Progress, "%.0f events/s: visible %.1f ms after the acknowledgement, p99 %.1f\n", reached, quantile(lags, 0.5), quantile(lags, 0.99))
		for _, q := range []struct {
			name  string
			share float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			figures = append(figures, NewFigure(fmt.Sprintf("lag at %d events/s, %s", r, q.name), "ms", []float64{quantile(lags, q.share)}, nil, ""))
		}
	}
	highest, err := l.highest(ctx)
	return append(figures, NewFigure("highest rate whose lag stays below a second", "events/s", []float64{highest}, nil, "")), err
}

// highest is the highest rate of the ladder, as it was reached, up to which the lag stays bounded: zero where it does at none.
func (l *live) highest(ctx context.Context) (best float64, err error) {
	for _, r := range liveLadder {
		lags, left, reached, err := l.at(ctx, r, l.Length)
		if err != nil {
			return best, err
		}
		late := slices.Sorted(slices.Values(lags[len(lags)/2:])) // before more of them become visible
		if err := l.settle(ctx); err != nil {
			return best, err
		}
		p99 := math.Inf(1)
		if len(late) > 0 {
			p99 = quantile(late, 0.99)
		}
		fmt.Fprintf(l.Progress, "%.0f events/s (of %d): p99 %.1f ms in the second half, %d commits not visible at its end\n", reached, r, p99, left)
		// What is not visible at the end is late by as much as it took to send it.
		waiting := l.Length.Seconds() * float64(left) / float64(len(lags)+left)
		if p99 > float64(bounded.Milliseconds()) || waiting > bounded.Seconds() {
			return best, nil
		}
		if best = max(best, reached); reached < 0.9*float64(r) {
			return best, nil // more can't be made
		}
	}
	return best, nil
}
