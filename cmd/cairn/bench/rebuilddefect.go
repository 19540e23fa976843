package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// RebuildDefect rebuilds read models with a seeded defect in the code that fills the new generations: of one thread in twenty the
// first commit is taken for an hour later than it was. What it measures is whether verify names those keys
// (it shows the first of many), and whether nothing is swapped.
func RebuildDefect(ctx context.Context, o RebuildOptions) (report Report, err error) {
	r, err := newRebuildBench(&o)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, step := range []func(context.Context) error{r.fillLog, r.start, r.defect} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "rebuild-defect", Machine: ThisMachine(), Figures: r.figures}, nil
}

// touchedByDefect names the read models whose rows show when a thread began.
func touchedByDefect() []string { return []string{"events", "threads", "runs"} }

// oneIn is how rare the defect is.
const oneIn = 20

// defective is a projector with the defect. It notes the threads that it got wrong.
type defective struct {
	projections.Projector
	wrong *wrongThreads
}

type wrongThreads struct {
	mu  sync.Mutex
	ids map[string]bool
}

// Fills says that it works in bulk as the projector that it spoils.
func (defective) Fills() {}

// Apply folds commits of which some are wrong.
func (d defective) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	commits := slices.Clone(b.Commits)
	for i := range commits {
		commits[i] = d.spoil(commits[i])
	}
	b.Commits = commits
	return d.Projector.Apply(ctx, tx, b)
}

func (d defective) spoil(c streams.Commit) streams.Commit {
	if len(c.Events) == 0 || c.Events[0].Version != 1 || c.Events[0].Stream.Kind() != "thread" || chosen(c.Events[0].Stream.ID()) != 0 {
		return c
	}
	d.wrong.mu.Lock()
	d.wrong.ids[c.Events[0].Stream.ID()] = true
	d.wrong.mu.Unlock()
	c.Events = slices.Clone(c.Events)
	for i, e := range c.Events {
		if at, err := time.Parse(streams.TimeLayout, e.At); err == nil {
			c.Events[i].At = at.Add(time.Hour).Format(streams.TimeLayout)
		}
	}
	return c
}

// chosen is a number below oneIn, by the thread.
func chosen(id string) int {
	n := 0
	for _, c := range id {
		n = (31*n + int(c)) % oneIn
	}
	return n
}

func (r *rebuildBench) defect(ctx context.Context) error {
	attached, _, err := r.config.Attach()
	if err != nil {
		return err
	}
	operator, err := app.Operate(ctx, attached)
	if err != nil {
		return err
	}
	defer operator.Close()
	wrong := &wrongThreads{ids: map[string]bool{}}
	spoiled := app.Projectors(nil)
	for i, p := range spoiled {
		spoiled[i] = defective{Projector: p, wrong: wrong}
	}
	began := time.Now()
	done, err := operator.Rebuild(ctx, app.RebuildOptions{Names: touchedByDefect(), By: "bench", Room: app.AnyRoom, Projectors: spoiled, Log: app.NewLog(r.config, r.Progress)})
	if err != nil {
		return err
	}
	r.say("rebuilt with a defect and compared, after %.0f s", time.Since(began).Seconds())
	named, swapped := map[string]bool{}, 0
	for _, d := range done {
		if d.Swapped {
			swapped++
		}
		if !errors.Is(d.Err, projections.ErrDiffers) {
			return fmt.Errorf("bench: the rebuild of %s with a defect ended with %v", d.Projection, d.Err)
		}
		text := fmt.Sprintf("%+v", d.Verdict)
		r.say("%s: %.300s", d.Projection, text)
		for id := range wrong.ids {
			if strings.Contains(text, id) {
				named[id] = true
			}
		}
	}
	r.add(r.count("threads that the new generations have wrong", "threads", float64(len(wrong.ids))).Aim(AtLeast, 1))
	r.add(r.count("of them named by verify, which shows 20 keys", "threads", float64(len(named))).Aim(AtLeast, float64(min(20, len(wrong.ids)))))
	r.add(r.count("generations swapped", "generations", float64(swapped)).Aim(AtMost, 0))
	return r.stillRead(ctx, done)
}

// stillRead looks whether the generations that were to be replaced are the ones that are read.
func (r *rebuildBench) stillRead(ctx context.Context, done []projections.Rebuilt) error {
	conn, err := r.database(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, d := range done {
		live, err := projections.LiveGeneration(ctx, conn, d.Projection)
		if err != nil {
			return err
		}
		if live.Number != d.Replaces {
			return fmt.Errorf("bench: %s is read", live)
		}
	}
	return nil
}
