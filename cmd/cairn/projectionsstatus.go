package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
)

type projectionsStatusCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run prints it.
func (s projectionsStatusCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		found, err := o.ProjectionStatus(ctx, s.Name)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, found)
		}
		showStatus(c, found)
		return nil
	})
}

func showStatus(c *console, s projections.Status) {
	if s.PausedAt != nil {
		fmt.Fprintf(c.out, "%s is paused since %s by %s: go on with `cairn projections resume %s`\n", s.Projection, s.PausedAt.UTC().Format(time.DateTime), s.PausedBy, s.Projection)
	}
	if s.Rebuilding {
		fmt.Fprintf(c.out, "%s is being rebuilt now\n", s.Projection)
	}
	rows := make([][]any, len(s.Generations))
	for i, g := range s.Generations {
		rows[i] = []any{shownGeneration(g.Number, g.Live), g.Revision, g.State, fmt.Sprintf("%.1f MiB", float64(g.Bytes)/(1<<20)), g.BegunAt.Format(time.DateTime), aboutGeneration(g)}
	}
	printTable(c.out, []string{"Generation", "Revision", "State", "Size", "Begun (UTC)", "Note"}, rows)
	fmt.Fprintln(c.out)
	rows = nil
	for _, l := range s.Lags {
		rows = append(rows, []any{shownGeneration(l.Generation, l.Live), l.Partition, l.Offsets, fmt.Sprintf("%.1f s", l.Seconds)})
	}
	printTable(c.out, []string{"Generation", "Partition", "Lag", "Time"}, rows)
	for _, at := range s.Stops {
		fmt.Fprintf(c.out, "\ngeneration %d has stopped in partition %d, at offset %d, event %s, since %s: %s\n", at.Generation, at.Partition, at.Offset, at.Event, at.At.Format(time.DateTime), at.Reason)
		fmt.Fprintf(c.out, "try it again with `cairn projections resume %s`, or step over the event with `cairn projections skip %s %d --reason …`\n", s.Projection, s.Projection, at.Partition)
	}
	if len(s.Skips) == 0 {
		return
	}
	fmt.Fprintln(c.out)
	rows = nil
	for _, k := range s.Skips {
		rows = append(rows, []any{k.Event, k.Partition, k.Offset, k.At.Format(time.DateTime), k.By, k.Reason})
	}
	printTable(c.out, []string{"Skipped event", "Partition", "Offset", "At (UTC)", "By", "Reason"}, rows)
}

// aboutGeneration is what is worth knowing of it.
func aboutGeneration(g projections.GenerationStatus) string {
	switch {
	case g.Failure != "":
		return "failed: " + g.Failure
	case g.Live:
		return ""
	case g.Previous:
		return "a rollback goes there"
	case g.State == projections.Feeding && g.VerifiedAt != nil:
		return "compared " + g.VerifiedAt.UTC().Format(time.DateTime)
	case g.AskedBy != "":
		return "asked for by " + g.AskedBy
	default:
		return ""
	}
}
