package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/prune"
)

// pruneCmd deletes rows that nothing needs.
type pruneCmd struct {
	Before           string `required:"" help:"Threads whose newest event is before this time: 2026-11-30, or 2026-11-30T18:45:00Z."`
	GiveUpTimeTravel bool   `help:"Such threads, and their accounts, can't be looked at as they were any more."`
	Yes              bool   `help:"Delete. Without it, it is only counted."`
}

// Run counts, or deletes.
func (p pruneCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	o := prune.Options{NoTimeTravel: p.GiveUpTimeTravel}
	if err := parseTime(p.Before, &o.Before); err != nil {
		return err
	}
	if o.Before.IsZero() {
		return errors.New("--before is empty: write the time before which threads must have been quiet, such as 2026-11-30")
	}
	if o.Before.After(time.Now()) {
		return errors.New("--before lies in the future: a thread that somebody talks in right now would lose its history")
	}
	return operating(ctx, config, func(op *app.Operator) error {
		if !p.Yes {
			found, err := op.LookAtPruning(ctx, o)
			if err != nil {
				return err
			}
			if err := printFound(c, found, "would lose their history"); err != nil || c.json {
				return err
			}
			fmt.Fprintln(c.out, "Nothing was deleted. Delete with --yes --give-up-time-travel.")
			return nil
		}
		last := time.Now()
		o.Progress = func(f prune.Found) {
			if time.Since(last) > 5*time.Second {
				last = time.Now()
				fmt.Fprintf(c.err, "cairn: %d rows of %d threads deleted\n", f.Rows, f.Threads)
			}
		}
		found, err := op.PruneEvents(ctx, o)
		if err != nil {
			return err
		}
		return printFound(c, found, "lost their history")
	})
}

func printFound(c *console, f prune.Found, what string) error {
	if c.json {
		return printJSON(c.out, f)
	}
	fmt.Fprintf(c.out, "%d threads %s, %d rows in all. Of the quiet ones %d keep it because something in them is open, and %d because their state must be folded again.\n",
		f.Threads, what, f.Rows, f.Busy, f.Refold)
	return nil
}
