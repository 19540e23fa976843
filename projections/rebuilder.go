package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// RebuilderConfig is RebuildConfig for a worker that looks by itself for what is to be rebuilt. Names and Progress are its own.
// Swap is for what it begins.
type RebuilderConfig struct {
	RebuildConfig
	// Every is how often it looks. Zero: 10 s.
	Every time.Duration
}

// Rebuilder rebuilds read models whose compiled-in revision is newer than that of the generation that is read, and takes up
// what other rebuilders left. Several may run.
type Rebuilder struct {
	cfg   RebuilderConfig
	seen  map[Numbered]bool    // unfinished at the last look, with nobody at it
	after map[string]time.Time // failed: not before
	waits map[string]time.Duration
}

// NewRebuilder makes a worker; it does nothing before Run.
func NewRebuilder(cfg RebuilderConfig) *Rebuilder {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Every = cmp.Or(cfg.Every, 10*time.Second)
	cfg.By = cmp.Or(cfg.By, "background")
	return &Rebuilder{cfg: cfg, seen: map[Numbered]bool{}, after: map[string]time.Time{}, waits: map[string]time.Duration{}}
}

// Run looks and rebuilds until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		if err := r.once(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("what is to be rebuilt is not known, or could not be rebuilt; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *Rebuilder) once(ctx context.Context) error {
	begin, takeUp, err := r.due(ctx)
	if err != nil {
		return err
	}
	// What was begun keeps its mode; what begins now gets ours.
	newer := r.cfg.RebuildConfig
	newer.Names, newer.Swap, newer.onlyNewer, newer.by = begin, cmp.Or(r.cfg.Swap, SwapAuto), true, background
	left := r.cfg.RebuildConfig
	left.Names, left.Swap, left.by = takeUp, "", background
	return errors.Join(r.rebuild(ctx, left), r.rebuild(ctx, newer))
}

// due are the read models to begin with, and those whose rebuild broke off.
func (r *Rebuilder) due(ctx context.Context) (begin, takeUp []string, err error) {
	found, err := lineages(ctx, r.cfg.Pool)
	if err != nil {
		return nil, nil, err
	}
	asked, err := askedFor(ctx, r.cfg.Pool)
	if err != nil {
		return nil, nil, err
	}
	fed, err := everFed(ctx, r.cfg.Pool)
	if err != nil {
		return nil, nil, err
	}
	paused, err := pausedNow(ctx, r.cfg.Pool)
	if err != nil {
		return nil, nil, err
	}
	now, unfinished := time.Now(), map[Numbered]bool{}
	for _, name := range Names(r.cfg.Projectors) {
		s, exists := found[name]
		projector, _ := newestOf(r.cfg.Projectors, name)
		if !exists || paused[name] || now.Before(r.after[name]) {
			continue
		}
		g, has := s.next()
		switch {
		case has && r.mine(s, g, projector, asked):
			busy, err := Rebuilding(ctx, r.cfg.Pool, name)
			if err != nil {
				return nil, nil, err
			}
			n := Numbered{name, g.Number}
			if !busy {
				// Not at once: who was killed may come back and go on.
				if unfinished[n] = true; r.seen[n] {
					takeUp = append(takeUp, name)
				}
			}
		case !has && fed[name] && projector.Revision() > s.live.Revision && !asked.revision(name, projector.Revision()):
			begin = append(begin, name)
		}
	}
	r.seen = unfinished
	return begin, takeUp, nil
}

// pausedNow are the read models that an operator has paused: nothing is done to them.
func pausedNow(ctx context.Context, q querier) (map[string]bool, error) {
	return namesOf(ctx, q, `SELECT name FROM projections WHERE paused_at IS NOT NULL`)
}

// everFed are the read models that have places in the log. Any other is empty, and Ensure replaces it.
func everFed(ctx context.Context, q querier) (map[string]bool, error) {
	return namesOf(ctx, q, `SELECT DISTINCT projection FROM projection_checkpoints`)
}

func namesOf(ctx context.Context, q querier, sql string) (map[string]bool, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("projections: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("projections: %w", err)
	}
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found, nil
}

// mine reports whether there is something to do for a generation that is not read yet.
func (r *Rebuilder) mine(s lineage, g Generation, projector Projector, asked asked) bool {
	switch {
	case g.Revision > projector.Revision():
		return false // a newer release's
	case g.ByHand:
		return false // an operator chose it, or left it
	case g.State != Feeding:
		return true
	default:
		return !s.differed(g) && asked[Numbered{g.Projection, g.Number}].swap == SwapAuto
	}
}

func (r *Rebuilder) rebuild(ctx context.Context, cfg RebuildConfig) error {
	if len(cfg.Names) == 0 {
		return nil
	}
	last := time.Time{}
	cfg.Progress = func(p RebuildProgress) {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		r.cfg.Log.Info("rebuilding", "projections", p.Names, "phase", p.Phase, "done", p.Done, "of", p.Total, "events_per_second", int(p.Rate), "left", p.Left.Round(time.Second))
	}
	done, err := Rebuild(ctx, cfg)
	var busy *Busy
	if errors.As(err, &busy) {
		return nil // another process's
	}
	for _, d := range done {
		var notYet *NotYet
		switch {
		case d.Err == nil:
			delete(r.waits, d.Projection)
			continue
		case errors.As(d.Err, &notYet):
			r.cfg.Log.Info("a rebuilt read model is not read yet", "projection", d.Projection, "generation", d.Generation, "because", notYet.Err)
			continue
		}
		r.later(d.Projection)
		r.cfg.Log.Error("a read model could not be rebuilt; the one that is read goes on", "projection", d.Projection, "generation", d.Generation, "error", d.Err)
	}
	if err != nil {
		for _, name := range cfg.Names {
			r.later(name)
		}
	}
	return err
}

// later puts the next attempt off: twice as long each time, ten minutes at most.
func (r *Rebuilder) later(name string) {
	r.waits[name] = min(10*time.Minute, max(2*r.cfg.Every, 2*r.waits[name]))
	r.after[name] = time.Now().Add(r.waits[name])
}

// asked is who asked for which generations, also for those that are no more.
type asked map[Numbered]request

type request struct {
	revision int
	swap     SwapMode
	by       string
	failedAt *time.Time
	failure  string
}

// revision reports whether a revision was ever asked for.
func (a asked) revision(name string, revision int) bool {
	for n, q := range a {
		if n.Projection == name && q.revision == revision {
			return true
		}
	}
	return false
}

func askedFor(ctx context.Context, q querier) (asked, error) {
	rows, err := q.Query(ctx, `SELECT projection, generation, revision, swap, asked_by, failed_at, coalesce(failure, '') FROM projection_rebuilds`)
	if err != nil {
		return nil, noted(err)
	}
	found := asked{}
	var n Numbered
	var one request
	_, err = pgx.ForEachRow(rows, []any{&n.Projection, &n.Generation, &one.revision, &one.swap, &one.by, &one.failedAt, &one.failure}, func() error {
		found[n] = one
		return nil
	})
	return found, noted(err)
}
