package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
)

type projectionsVerifyCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run compares, and fails where there is a difference.
func (v projectionsVerifyCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		verdict, err := o.VerifyProjection(ctx, v.Name)
		if err != nil {
			return err
		}
		return printVerdict(c, verdict)
	})
}

// printVerdict shows what differs, by key, and is an error then.
func printVerdict(c *console, v projections.Verdict) error {
	if c.json {
		if err := printJSON(c.out, v); err != nil {
			return err
		}
	} else {
		showVerdict(c, v)
	}
	return v.Err()
}

type projectionsSwapCmd struct {
	Name       string `arg:"" help:"The read model."`
	To         *int   `help:"The generation; it may be left out where there is one beside the one that is read." placeholder:"GENERATION"`
	Unverified bool   `help:"At once, without comparing them."`
}

// Run swaps.
func (s projectionsSwapCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if err := countsFromOne(s.Name, s.To); err != nil {
		return err
	}
	return operating(ctx, config, func(o *app.Operator) error {
		to, err := chosen(ctx, o, s.Name, s.To)
		if err != nil {
			return err
		}
		e, err := o.Swap(ctx, s.Name, projections.SwapOptions{Generation: to, Unverified: s.Unverified})
		if err != nil {
			return err
		}
		return said(c, exchanged(e),
			"generation %d of %s is read now; both are fed until you drop the other one. Go back with `cairn projections rollback %s`%s%s",
			e.Number, s.Name, s.Name, saidDiffers(e), saidCancelled(s.Name, e.Cancelled))
	})
}

type projectionsRollbackCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run goes back.
func (r projectionsRollbackCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		e, err := o.RollbackProjection(ctx, r.Name)
		if err != nil {
			return err
		}
		return said(c, exchanged(e), "generation %d of %s is read again%s%s", e.Number, r.Name, saidDiffers(e), saidCancelled(r.Name, e.Cancelled))
	})
}

// exchanged is a swap or a rollback for programs.
func exchanged(e projections.Exchanged) map[string]any {
	return map[string]any{
		"projection": e.Projection, "generation": e.Number, "revision": e.Revision, "before": e.Before, "differs": e.Differed != nil, "cancelled": e.Cancelled,
	}
}

// saidDiffers says that what is read now was found to be another than what was read.
func saidDiffers(e projections.Exchanged) string {
	if e.Differed == nil {
		return ""
	}
	return fmt.Sprintf("\nIt differs from generation %d at %d keys, as was found at %s: see `cairn projections verify %s`",
		e.Before, e.Differed.Differences, e.Differed.At.Format(time.DateTime), e.Projection)
}

// chosen is the generation that was named, or the one beside that which is read.
func chosen(ctx context.Context, o *app.Operator, name string, number *int) (int, error) {
	if number == nil {
		other, err := o.Other(ctx, name)
		return other.Number, err
	}
	return *number, nil
}

// countsFromOne refuses a number that no generation has. 0 is not the same as none.
func countsFromOne(name string, number *int) error {
	if number != nil && *number < 1 {
		return fmt.Errorf("there is no generation %d: they count from 1, see `cairn projections status %s`", *number, name)
	}
	return nil
}

type projectionsDropCmd struct {
	Name       string `arg:"" help:"The read model."`
	Generation *int   `arg:"" optional:"" help:"Which; it may be left out where there is one beside the one that is read."`
}

// Run drops.
func (d projectionsDropCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if err := countsFromOne(d.Name, d.Generation); err != nil {
		return err
	}
	return operating(ctx, config, func(o *app.Operator) error {
		number, err := chosen(ctx, o, d.Name, d.Generation)
		if err != nil {
			return err
		}
		cancelled, err := o.DropGeneration(ctx, d.Name, number)
		if err != nil {
			return err
		}
		return said(c, map[string]any{"projection": d.Name, "dropped": number, "cancelled": cancelled}, "generation %d of %s is dropped%s",
			number, d.Name, saidCancelled(d.Name, cancelled))
	})
}

// showVerdict says what was compared, and what differs.
func showVerdict(c *console, v projections.Verdict) {
	var rows [][]any
	for _, t := range v.Tables {
		note := "equal"
		if t.Differences > 0 {
			note = fmt.Sprint(t.Differences, " keys differ")
		}
		if len(t.LeftOut) > 0 {
			note += ", without " + strings.Join(t.LeftOut, ", ")
		}
		rows = append(rows, []any{t.Table, t.Rows, t.OtherRows, note})
	}
	fmt.Fprintf(c.out, "%s: generation %d, which is read, and generation %d, compared in one snapshot in %s\n", v.Projection, v.Live, v.Generation, v.Took.Round(time.Millisecond))
	printTable(c.out, []string{"Table", "Rows", "Rows of the other", "Keys"}, rows)
	for _, t := range v.Tables {
		for _, d := range t.Shown {
			fmt.Fprintf(c.out, "  %s %s\n", t.Table, d)
		}
		if more := t.Differences - int64(len(t.Shown)); more > 0 {
			fmt.Fprintf(c.out, "  %s and %d more keys\n", t.Table, more)
		}
	}
}
