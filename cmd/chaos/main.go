// Command chaos holds Cairn to its promises: it runs two processes of each role on real Kafka and a private Postgres, has
// clients work on them, injures them in every way it knows, and has a checker judge what clients were told against the log.
// Its exit code is the checker's. It is a test program, and no part of what is shipped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

type cli struct {
	Run       runCmd       `cmd:"" default:"withargs" help:"Injure an installation, and judge."`
	Reconnect reconnectCmd `cmd:"" help:"Follow streams over sockets while everything comes and goes, and judge what was received."`

	List  listCmd  `cmd:"" help:"List the faults."`
	Serve serveCmd `cmd:"" hidden:"" help:"cairn serve, with a clock that can be moved."`
}

// errJudged is the end of a run in which the checker found something; it has said what.
var errJudged = errors.New("the promises were not kept")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var c cli
	parsed := kong.Parse(&c, kong.Name("chaos"), kong.Description("Holds Cairn to its promises under every fault."))
	parsed.BindTo(ctx, (*context.Context)(nil))
	err := parsed.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// serveCmd is `cairn serve` but for its clock.
type serveCmd struct {
	app.Config `embed:""`
	Role       []string `sep:","`
	Clock      string   `env:"CAIRN_CHAOS_CLOCK" help:"File that says how far the clock is ahead."`
}

// Run serves until it is told to stop.
func (s *serveCmd) Run(ctx context.Context) error {
	moved, err := newClock(s.Clock)
	if err != nil {
		return err
	}
	follow, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		moved.follow(follow, 50*time.Millisecond)
	}()
	defer func() {
		stop()
		<-followed
	}()
	s.Roles, s.Now = s.Role, moved.now
	running, err := app.Start(ctx, s.Config, "chaos", app.NewLog(s.Config, os.Stderr))
	if err != nil {
		return err
	}
	defer running.Stop()
	fmt.Fprintln(os.Stderr, "chaos: serving on", running.URL())
	return running.Wait(ctx)
}
