package main

import (
	"context"

	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

type benchReplayCmd struct {
	Events int `help:"Events in the log." default:"1000000"`
	Rounds int `help:"How often the comparisons are made." default:"3"`
}

// Run measures.
func (b benchReplayCmd) Run(ctx context.Context, c *console) error {
	report, err := bench.Replay(ctx, bench.ReplayOptions{Events: b.Events, Rounds: b.Rounds, Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}

type benchLiveCmd struct{}

// Run measures.
func (benchLiveCmd) Run(ctx context.Context, c *console) error {
	report, err := bench.Live(ctx, bench.LiveOptions{Progress: c.err})
	if err != nil {
		return err
	}
	return show(c, report)
}
