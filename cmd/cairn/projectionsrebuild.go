package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	bars "github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
)

type projectionsRebuildCmd struct {
	Names   []string `arg:"" optional:"" name:"name" help:"The read models."`
	All     bool     `help:"All of them, filled together by one reader of the log."`
	MaxRate int      `help:"At most so many events a second; 0: as fast as it goes." name:"max-rate"`
	Memory  int64    `help:"MiB of rows that are held while they are filled." default:"128"`
	NoSwap  bool     `help:"Verify it, and leave it at that: swap yourself." name:"no-swap"`
	Full    bool     `help:"Begin although there may not be room for it." name:"ignore-space"`
}

// Run rebuilds. Killed at any point it goes on there when it is run again.
func (r projectionsRebuildCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	switch {
	case r.All == (len(r.Names) > 0):
		return errors.New("name the read models, or rebuild all with --all: see `cairn projections list`")
	case r.MaxRate < 0 || r.Memory <= 0:
		return errors.New("--max-rate must be 0 or more, and --memory more than nothing")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		show := newRebuildProgress(c)
		options := app.RebuildOptions{
			Names: r.Names, Swap: projections.SwapAuto, MaxRate: r.MaxRate, Memory: r.Memory << 20, By: operatorName(), Progress: show.note, Log: app.NewLog(*config, c.err),
		}
		if r.NoSwap {
			options.Swap = projections.SwapManual
		}
		if r.Full {
			options.Room = app.AnyRoom
		}
		done, err := o.Rebuild(ctx, options)
		show.end()
		var full *projections.NoRoom
		if errors.As(err, &full) {
			return fmt.Errorf("%w: make room, rebuild them one after the other, or go on with --ignore-space", err)
		}
		if err != nil {
			return fmt.Errorf("%w (what is filled is kept: the same command goes on there)", err)
		}
		return printRebuilt(c, done)
	})
}

func printRebuilt(c *console, done []projections.Rebuilt) error {
	var failed error
	for _, d := range done {
		failed = errors.Join(failed, d.Err)
		if c.json {
			failure := ""
			if d.Err != nil {
				failure = d.Err.Error()
			}
			if err := printJSON(c.out, map[string]any{
				"projection": d.Projection, "generation": d.Generation, "replaces": d.Replaces, "revision": d.Revision, "taken_up": d.TakenUp,
				"clean": d.Err == nil && d.Verdict.Clean(), "verdict": d.Verdict, "swapped": d.Swapped, "seconds": d.Took.Seconds(), "error": failure,
			}); err != nil {
				return err
			}
			continue
		}
		switch {
		case errors.Is(d.Err, projections.ErrDiffers):
			showVerdict(c, d.Verdict)
		case d.Err != nil && d.Generation == 0:
			fmt.Fprintf(c.out, "%s: nothing was begun: %v\n", d.Projection, d.Err)
		case d.Err != nil:
			fmt.Fprintf(c.out, "%s: generation %d is there, but not read: %v\n", d.Projection, d.Generation, d.Err)
		case d.Swapped:
			fmt.Fprintf(c.out, "%s: generation %d is verified and read, after %s; go back with `cairn projections rollback %s`, or end that with `cairn projections drop %s`\n",
				d.Projection, d.Generation, d.Took.Round(100*time.Millisecond), d.Projection, d.Projection)
		default:
			fmt.Fprintf(c.out, "%s: generation %d is verified, after %s; let it be read with `cairn projections swap %s`\n",
				d.Projection, d.Generation, d.Took.Round(100*time.Millisecond), d.Projection)
		}
	}
	return failed
}

// rebuildProgress shows how far a rebuild is: a bar on a terminal, a line now and then elsewhere, objects for programs.
type rebuildProgress struct {
	c       *console
	writer  bars.Writer // nil: no terminal
	tracker *bars.Tracker
	done    chan struct{}
	phase   string
	last    time.Time
}

// How often a line is written where there is no terminal, and an object for programs.
const (
	lineEvery   = 5 * time.Second
	objectEvery = 200 * time.Millisecond
)

func newRebuildProgress(c *console) *rebuildProgress {
	p := &rebuildProgress{c: c}
	if c.json || !isTerminal(c.err) {
		return p
	}
	p.writer = bars.NewWriter()
	p.writer.SetOutputWriter(c.err)
	p.writer.SetAutoStop(false)
	p.writer.SetTrackerPosition(bars.PositionRight)
	p.writer.Style().Visibility.ETA, p.writer.Style().Visibility.Speed = true, true
	p.writer.Style().Visibility.Value = true
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.writer.Render()
	}()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// note tells how far it is.
func (p *rebuildProgress) note(now projections.RebuildProgress) {
	names := strings.Join(now.Names, ", ")
	fresh := p.phase != now.Phase+names
	p.phase = now.Phase + names
	if p.writer != nil {
		p.bar(names, now, fresh)
		return
	}
	every := lineEvery
	if p.c.json {
		every = objectEvery
	}
	if !fresh && time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.c.json {
		_ = printJSON(p.c.out, map[string]any{ // who reads it ends with us
			"phase": now.Phase, "projections": now.Names, "done": now.Done, "total": now.Total, "events": now.Events, "rows": now.Rows,
			"events_per_second": now.Rate, "seconds": now.Elapsed.Seconds(), "seconds_left": now.Left.Seconds(),
		})
		return
	}
	if now.Total == 0 {
		fmt.Fprintf(p.c.err, "cairn: %s %s\n", now.Phase, names)
		return
	}
	fmt.Fprintf(p.c.err, "cairn: %s %s: %.0f %%, %.0f events/s, %s left\n", now.Phase, names,
		100*float64(now.Done)/float64(now.Total), now.Rate, now.Left.Round(time.Second))
}

func (p *rebuildProgress) bar(names string, now projections.RebuildProgress, fresh bool) {
	if fresh {
		if p.tracker != nil {
			p.tracker.MarkAsDone()
		}
		p.tracker = &bars.Tracker{Message: now.Phase + " " + names, Total: now.Total}
		p.writer.AppendTracker(p.tracker)
	}
	message := now.Phase + " " + names
	if now.Rate > 0 {
		message = fmt.Sprintf("%s (%.0f events/s)", message, now.Rate)
	}
	p.tracker.UpdateMessage(message)
	p.tracker.UpdateTotal(now.Total)
	p.tracker.SetValue(now.Done)
}

// end takes the bar away.
func (p *rebuildProgress) end() {
	if p.writer == nil {
		return
	}
	if p.tracker != nil {
		p.tracker.MarkAsDone()
	}
	p.writer.Stop()
	<-p.done
}
