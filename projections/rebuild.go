package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// SwapMode says who decides that a rebuilt generation is read.
type SwapMode string

// A generation is read as soon as it is verified, or when an operator swaps.
const (
	SwapAuto   SwapMode = "auto"
	SwapManual SwapMode = "manual"
)

// RebuildConfig says what to rebuild, and how.
type RebuildConfig struct {
	Pool   *pgxpool.Pool
	Tailer streams.Tailer
	Schema *codec.Schema
	// Projectors are all that are compiled in. The newest revision of each name is what is built.
	Projectors []Projector
	// Names are the read models to rebuild. They are filled together, by one reader of the log.
	Names []string
	// Swap is SwapAuto if it is empty. A generation that is taken up keeps what was said when it was begun, unless this is set.
	Swap SwapMode
	// By is who asks, for other people to see.
	By      string
	MaxRate int   // events a second; 0: as fast as it goes
	Memory  int64 // see FillConfig
	// Free is how many bytes the database may still grow by; nil: nobody knows, and nothing is refused.
	Free func() (uint64, error)
	// Ready may refuse a verified generation, where something runs that can't read it; nil: it is read.
	Ready func(context.Context, Generation) error
	// Session is after how long a rebuilder of which nothing is heard is taken for dead. Zero: 10 s.
	Session time.Duration
	// Progress is told how far it is; never from two goroutines at once. nil: nobody.
	Progress func(RebuildProgress)
	Log      *slog.Logger

	// onlyNewer leaves those alone whose newest revision is read.
	onlyNewer bool
	by        hand
}

// RebuildProgress is how far a rebuild is.
type RebuildProgress struct {
	// Names are the read models that are at it. Phase is Progress's, or one of those below.
	Names []string
	Progress
}

// The phases after filling.
const (
	PhaseVerifying = "verifying" // waits until both generations stand at one place, and compares them
	PhaseSwapping  = "swapping"
)

// Rebuilt is how the rebuild of one read model ended.
type Rebuilt struct {
	Projection string
	Generation int // the new one; 0: none was begun
	Replaces   int // the one that was read
	Revision   int
	TakenUp    bool // somebody had begun it before
	Verdict    Verdict
	Swapped    bool
	Took       time.Duration
	// Err is why it is not done: the generation stays, and the next rebuild takes it up, except where Verdict says that it is wrong.
	Err error
}

// NotYet says that a generation is filled, but that something runs that can't read it.
type NotYet struct {
	Generation Generation
	Err        error
}

// Error says what.
func (n *NotYet) Error() string {
	return fmt.Sprintf("generation %d of %s is filled, but not read yet: %v", n.Generation.Number, n.Generation.Projection, n.Err)
}

// Unwrap is the reason.
func (n *NotYet) Unwrap() error { return n.Err }

// Busy says that another process rebuilds these read models.
type Busy struct{ Names []string }

// Error names them.
func (b *Busy) Error() string {
	return fmt.Sprintf("another process is rebuilding %v", b.Names)
}

// Rebuild fills the next generation of read models beside the one that is read, from the beginning of the log, verifies it and
// lets it be read. What an earlier rebuild left, at any point, is taken up. It only reads the log and writes tables: it asks for
// nothing, and no effect or policy knows of it. Engines with the same revision compiled in must run somewhere: they feed both
// generations from where filling ends. The error is one that concerns all; *Busy: nothing was done.
func Rebuild(ctx context.Context, cfg RebuildConfig) (done []Rebuilt, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(RebuildProgress) {}
	}
	cfg.Session = cmp.Or(cfg.Session, 10*time.Second)
	began := time.Now()
	cfg.Names = distinct(cfg.Names)
	held, release, err := hold(ctx, cfg.Pool, cfg.Session, cfg.Names)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r := rebuild{RebuildConfig: cfg}
	if err := r.plan(held); err != nil {
		return nil, err
	}
	if err := r.fill(held); err != nil {
		return nil, err
	}
	for _, t := range r.tasks {
		if t.err == nil {
			t.err = r.finish(held, t)
			var notYet *NotYet
			if t.err != nil && !errors.As(t.err, &notYet) {
				t.err = errors.Join(t.err, note(context.WithoutCancel(ctx), cfg.Pool, t.generation, t.err))
			}
		}
		done = append(done, Rebuilt{
			Projection: t.projector.Name(), Generation: t.generation.Number, Replaces: t.live, Revision: t.generation.Revision,
			TakenUp: t.takenUp, Verdict: t.verdict, Swapped: t.swapped, Took: time.Since(began), Err: t.err,
		})
	}
	return done, nil
}

// rebuild is one under way.
type rebuild struct {
	RebuildConfig
	tasks []*task
}

// task is the rebuild of one read model.
type task struct {
	projector  Projector
	generation Generation
	live       int
	swap       SwapMode
	takenUp    bool
	verdict    Verdict
	swapped    bool
	err        error
}

// fill brings all tasks to where engines feed them.
func (r *rebuild) fill(ctx context.Context) error {
	var targets []FillTarget
	var names []string
	for _, t := range r.tasks {
		if t.err == nil && t.generation.State != Feeding {
			targets, names = append(targets, FillTarget{Projector: t.projector, Generation: t.generation}), append(names, t.generation.Projection)
		}
	}
	if len(targets) == 0 {
		return nil
	}
	err := Fill(ctx, FillConfig{
		Pool: r.Pool, Tailer: r.Tailer, Schema: r.Schema, Targets: targets, MaxRate: r.MaxRate, Memory: r.Memory, Log: r.Log,
		Progress: func(p Progress) { r.Progress(RebuildProgress{Names: names, Progress: p}) },
	})
	if err == nil {
		return nil
	}
	for _, t := range r.tasks {
		if t.err == nil {
			err = errors.Join(err, note(context.WithoutCancel(ctx), r.Pool, t.generation, err))
		}
	}
	return err
}

// finish verifies a generation that is fed, and lets it be read if that is wanted.
func (r *rebuild) finish(ctx context.Context, t *task) (err error) {
	name := t.generation.Projection
	say := func(phase string) {
		r.Progress(RebuildProgress{Names: []string{name}, Progress: Progress{Phase: phase}})
	}
	if r.Ready != nil && t.swap == SwapAuto {
		if err := r.Ready(ctx, t.generation); err != nil {
			return &NotYet{Generation: t.generation, Err: err}
		}
	}
	say(PhaseVerifying)
	if t.verdict, err = VerifyWith(ctx, r.Pool, name, VerifyOptions{Generation: t.generation.Number}); err != nil {
		return err
	}
	if !t.verdict.Clean() {
		return fmt.Errorf("projections: %w: look at `cairn projections verify %s`, and drop it with `cairn projections drop %s %d`",
			t.verdict.Err(), name, name, t.generation.Number)
	}
	if t.swap == SwapManual {
		return nil
	}
	say(PhaseSwapping)
	s := swapping{pool: r.Pool, projection: name, number: t.generation.Number, patience: swapPatience, verdict: t.verdict, verified: time.Now(), by: rebuilders}
	switch _, err := s.run(ctx); {
	case errors.Is(err, errCancelled):
		r.Log.Warn("a rebuilt read model is not read: an operator swapped, rolled back, paused or dropped meanwhile", "projection", name, "generation", t.generation.Number)
		return nil
	case err != nil:
		return fmt.Errorf("projections: swap %s: %w", name, err)
	}
	t.swapped = true
	r.Log.Info("a rebuilt read model is read now", "projection", name, "generation", t.generation.Number, "before", t.live)
	return r.dropOld(ctx, t.generation)
}

// swapPatience is how long a verified generation may be behind the one that is read: it was equal at one moment, and engines
// may not have begun to feed it since.
const swapPatience = 30 * time.Second

// dropOld removes generations to which no rollback goes any more: no command but a swap by number could make them be read again.
// One that has stopped stays, as evidence, and nothing that an operator chose or left goes by itself.
func (r *rebuild) dropOld(ctx context.Context, live Generation) error {
	all, err := Generations(ctx, r.Pool)
	if err != nil {
		return err
	}
	stopped, err := stopsOf(ctx, r.Pool, live.Projection)
	if err != nil {
		return err
	}
	for _, g := range Of(all, live.Projection) {
		if g.Live || g.Previous || g.Number > live.Number {
			continue
		}
		if _, stands := stopped[g.Number]; stands || r.by == background && g.ByHand {
			r.Log.Info("an old generation stays until an operator drops it", "projection", g.Projection, "generation", g.Number)
			continue
		}
		if err := Drop(ctx, r.Pool, g.Projection, g.Number); err != nil {
			return err
		}
		r.Log.Info("an old generation was dropped", "projection", g.Projection, "generation", g.Number)
	}
	return nil
}

// newestOf is the newest revision of a read model that is compiled in.
func newestOf(projectors []Projector, name string) (Projector, bool) {
	for _, p := range newest(projectors) {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}

// Names are the read models that are compiled in, each once, in their order.
func Names(projectors []Projector) []string {
	found := newest(projectors)
	names := make([]string, len(found))
	for i, p := range found {
		names[i] = p.Name()
	}
	return names
}
