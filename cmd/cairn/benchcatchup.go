package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

type benchCatchupCmd struct {
	Clients int           `help:"How many come back at once." default:"1000"`
	Behind  int           `help:"How many events each has missed." default:"1000"`
	Streams []int         `help:"Over how many threads they are spread." default:"1,20"`
	Rounds  int           `help:"How often the turns are made." default:"3"`
	Length  time.Duration `help:"How long those who are level are measured before, at most 3 s." default:"3s"`
	Peer    string        `help:"The built peer (deploy/peers/fanout). Default: it is built from the checkout." type:"path"`
}

// Run measures.
func (b benchCatchupCmd) Run(ctx context.Context, c *console) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	report, err := bench.Catchup(ctx, bench.CatchupOptions{
		FanoutOptions: bench.FanoutOptions{Binary: binary, Peer: b.Peer, Rounds: b.Rounds, Length: b.Length, Progress: c.err},
		Clients:       b.Clients, Behind: b.Behind, Streams: b.Streams,
	})
	if err != nil {
		return err
	}
	return show(c, report)
}
