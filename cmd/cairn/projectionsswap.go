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
	To         int    `help:"The generation; it may be left out where there is one beside the one that is read." placeholder:"GENERATION"`
	Unverified bool   `help:"Also where it differs, or was never compared."`
}

// Run swaps.
func (s projectionsSwapCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		if s.To == 0 {
			other, err := o.Other(ctx, s.Name)
			if err != nil {
				return err
			}
			s.To = other.Number
		}
		g, err := o.Swap(ctx, s.Name, projections.SwapOptions{Generation: s.To, Unverified: s.Unverified})
		if err != nil {
			return err
		}
		return said(c, map[string]any{"projection": s.Name, "generation": g.Number, "revision": g.Revision},
			"generation %d of %s is read now; both are fed until you drop the other one. Go back with `cairn projections rollback %s`", g.Number, s.Name, s.Name)
	})
}

type projectionsRollbackCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run goes back.
func (r projectionsRollbackCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		g, err := o.RollbackProjection(ctx, r.Name)
		if err != nil {
			return err
		}
		return said(c, map[string]any{"projection": r.Name, "generation": g.Number, "revision": g.Revision},
			"generation %d of %s is read again", g.Number, r.Name)
	})
}

type projectionsDropCmd struct {
	Name       string `arg:"" help:"The read model."`
	Generation int    `arg:"" optional:"" help:"Which; it may be left out where there is one beside the one that is read."`
}

// Run drops.
func (d projectionsDropCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		number := d.Generation
		if number == 0 {
			other, err := o.Other(ctx, d.Name)
			if err != nil {
				return err
			}
			number = other.Number
		}
		if err := o.DropGeneration(ctx, d.Name, number); err != nil {
			return err
		}
		return said(c, map[string]any{"projection": d.Name, "dropped": number}, "generation %d of %s is dropped", number, d.Name)
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
