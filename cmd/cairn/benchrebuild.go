package main

import (
	"context"

	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

type benchRebuildCmd struct {
	Events int     `help:"Events in the log." default:"1000000"`
	Reads  float64 `help:"Reads a second." default:"200"`
	Writes float64 `help:"Writes a second." default:"50"`
	Defect bool    `help:"Fill the new generations with a seeded defect instead: verify must name it, and nothing is swapped."`
}

// Run measures.
func (b benchRebuildCmd) Run(ctx context.Context, c *console) error {
	measure := bench.Rebuild
	if b.Defect {
		measure = bench.RebuildDefect
	}
	report, err := measure(ctx, bench.RebuildOptions{Events: b.Events, Reads: b.Reads, Writes: b.Writes, Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}
