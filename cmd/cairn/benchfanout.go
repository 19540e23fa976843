package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

type benchFanoutCmd struct {
	Connections []int         `help:"How many sockets listen." default:"1,1000,5000"`
	Rounds      int           `help:"How often the turns are made." default:"3"`
	Length      time.Duration `help:"How long a turn is." default:"8s"`
	Peer        string        `help:"The built peer (deploy/peers/fanout). Default: it is built from the checkout." type:"path"`
	Frozen      bool          `help:"Measure instead what one client that stops reading costs among 1,000."`
	Profile     string        `help:"A folder for profiles of Cairn: what idle connections hold, and the processor while as much is delivered as goes." type:"path"`
}

// Run measures.
func (b benchFanoutCmd) Run(ctx context.Context, c *console) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	measure := bench.Fanout
	if b.Frozen {
		measure = bench.Frozen
	}
	report, err := measure(ctx, bench.FanoutOptions{
		Binary: binary, Peer: b.Peer, Connections: b.Connections, Rounds: b.Rounds, Length: b.Length, Profile: b.Profile, Progress: c.err,
	})
	if err != nil {
		return err
	}
	return show(c, report)
}

// benchFanoutServeCmd is the measured process.
type benchFanoutServeCmd struct{}

// Run obeys until its input ends.
func (benchFanoutServeCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return bench.ServeFanout(ctx, *config, c.in, c.out, c.err)
}
