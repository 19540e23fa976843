package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// FillTarget is a generation to fill, and the projector of its revision.
type FillTarget struct {
	Projector  Projector
	Generation Generation
}

// FillConfig says what to fill, and from where.
type FillConfig struct {
	Pool   *pgxpool.Pool
	Tailer streams.Tailer
	Schema *codec.Schema
	// Targets share one read and one decode of the log. They are of different projections.
	Targets []FillTarget
	// MaxRate is how many events are applied a second, of all partitions together. Zero: as many as there are.
	MaxRate int
	// Memory bounds the folded rows that wait to be written, in bytes. Beside it up to about 50 MB of events are under way for
	// each partition that is read. Zero: 128 MiB.
	Memory int64
	// Progress is told how far it is, about four times a second and at the end, from one goroutine at a time. Nil: nobody.
	Progress func(Progress)
	Log      *slog.Logger
}

// Progress is how far a Fill is.
type Progress struct {
	Phase       string // Filling, Indexing, and Feeding when it is done
	Events      int64  // that this call has read
	Rows        int64  // that this call has written
	Done, Total int64  // offsets of the log, of all partitions; Total is the end as it was seen first
	Elapsed     time.Duration
	Left        time.Duration // until Total, at the rate so far; 0: not known
	Rate        float64       // events a second so far
}

// Filler is a projector that works in bulk: its Apply writes through tables (Table and Appended) alone, and reads nothing
// else, so that their rows can stay in memory over many batches. Any other is filled batch by batch, in transactions.
type Filler interface {
	Projector
	Fills()
}

// Auditor is a Filler that looks at the whole of a table that is filled, for what Apply can't see meanwhile.
type Auditor interface {
	Audit(ctx context.Context, q Querier, g Generation) error
}

// Querier is what a pool, a connection and a transaction have in common.
type Querier = querier

// fillMemory is the default of FillConfig.Memory.
const fillMemory = 128 << 20

// Fill fills generations from where their checkpoints stand to the end that the log has now, makes their keys and indexes,
// and has them fed. Rows move with their checkpoints: after an error, or a kill at any point, it goes on where it was when it
// is called again. Faults of Postgres and the log that pass are waited for. At an event that a projector can't apply it marks
// the generation as stopped there and answers the *Stopped.
func Fill(ctx context.Context, c FillConfig) error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Memory = cmp.Or(c.Memory, fillMemory)
	f := &fill{FillConfig: c, began: time.Now()}
	for _, t := range c.Targets {
		f.keys = append(f.keys, &keys{pool: c.Pool, generation: t.Generation})
	}
	if c.MaxRate > 0 {
		f.limit = rate.NewLimiter(rate.Limit(c.MaxRate), f.pieceSize())
	}
	f.phase.Store(Filling)
	if err := f.lookAtEnds(ctx); err != nil {
		return err
	}
	group, told := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error { f.tell(told, done); return nil })
	group.Go(func() error { defer close(done); return f.run(told) })
	return group.Wait()
}

// fill is a Fill under way.
type fill struct {
	FillConfig
	began time.Time
	limit *rate.Limiter
	keys  []*keys // by target
	ends  []int64

	phase        atomic.Value
	events, rows atomic.Int64
	done         []atomic.Int64 // where each partition stands
	before       atomic.Int64   // the sum of where they stood first
	total        int64
}

// pieceSize bounds the events that are applied at once: fewer where the rate is bounded, so that it is a steady one.
func (f *fill) pieceSize() int {
	if f.MaxRate == 0 {
		return maxEvents
	}
	return min(maxEvents, max(1, f.MaxRate/10))
}

func (f *fill) run(ctx context.Context) error {
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(fillers(len(f.ends)))
	for partition := range f.ends {
		group.Go(func() error { return f.insist(reading, int32(partition)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	f.phase.Store(Indexing)
	if err := f.index(ctx); err != nil {
		return err
	}
	f.phase.Store(Feeding)
	return nil
}

// fillers is how many partitions are read at once.
func fillers(partitions int) int { return max(1, min(partitions, runtime.GOMAXPROCS(0))) }

func (f *fill) lookAtEnds(ctx context.Context) error {
	f.ends = make([]int64, f.Tailer.Partitions())
	f.done = make([]atomic.Int64, len(f.ends))
	for partition := range f.ends {
		end, err := f.Tailer.End(ctx, int32(partition))
		if err != nil {
			return fmt.Errorf("projections: fill: %w", err)
		}
		f.ends[partition] = end
		f.total += end
	}
	return nil
}

// insist fills one partition, again where it failed for a reason that passes.
func (f *fill) insist(ctx context.Context, partition int32) error {
	wait := newBackOff()
	for {
		err := f.partition(ctx, partition)
		var stopped *Stopped
		if err == nil || ctx.Err() != nil || errors.As(err, &stopped) || !passing(ctx, err) && !Away(err) {
			return err
		}
		f.Log.Warn("filling a read model begins again at its checkpoint", "partition", partition, "error", err)
		if !pause(ctx, wait.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// index makes keys and indexes, and has every target fed.
func (f *fill) index(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, t := range f.Targets {
		group.Go(func() error {
			if _, err := f.Pool.Exec(ctx, `UPDATE projection_generations SET state = 'indexing' WHERE projection = $1 AND generation = $2 AND state = 'filling'`,
				t.Generation.Projection, t.Generation.Number); err != nil {
				return fmt.Errorf("projections: fill %s: %w", t.Generation, err)
			}
			if a, ok := t.Projector.(Auditor); ok {
				if err := unhurried(ctx, f.Pool, func(tx pgx.Tx) error { return a.Audit(ctx, tx, t.Generation) }); err != nil {
					return fmt.Errorf("projections: fill %s: %w", t.Generation, err)
				}
			}
			return BuildIndexes(ctx, f.Pool, t.Generation)
		})
	}
	return group.Wait()
}

// tell tells Progress until done.
func (f *fill) tell(ctx context.Context, done <-chan struct{}) {
	if f.Progress == nil {
		return
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.Progress(f.progress())
		case <-ctx.Done():
			return
		case <-done:
			f.Progress(f.progress())
			return
		}
	}
}

func (f *fill) progress() Progress {
	p := Progress{
		Phase: f.phase.Load().(string), Events: f.events.Load(), Rows: f.rows.Load(), Elapsed: time.Since(f.began), Total: f.total,
	}
	for partition := range f.done {
		p.Done += f.done[partition].Load()
	}
	if seconds := p.Elapsed.Seconds(); seconds > 0 {
		p.Rate = float64(p.Events) / seconds
	}
	if read := p.Done - f.before.Load(); read > 0 && p.Phase == Filling {
		p.Left = time.Duration(float64(p.Elapsed) / float64(read) * float64(max(0, p.Total-p.Done)))
	}
	return p
}
