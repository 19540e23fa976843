package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/projections"
)

// projectionsCmd is what an operator does with the read models.
type projectionsCmd struct {
	List     projectionsListCmd     `cmd:"" help:"Where each read model stands."`
	Status   projectionsStatusCmd   `cmd:"" help:"All that is known of one read model."`
	Lag      projectionsLagCmd      `cmd:"" help:"How far each read model is behind the log."`
	Rebuild  projectionsRebuildCmd  `cmd:"" help:"Fill a read model anew beside the one that is read, verify it, and let it be read."`
	Verify   projectionsVerifyCmd   `cmd:"" help:"Compare a new generation with the one that is read."`
	Swap     projectionsSwapCmd     `cmd:"" help:"Let the other generation be read, if it is verified."`
	Rollback projectionsRollbackCmd `cmd:"" help:"Let the generation be read that was read before the last swap."`
	Drop     projectionsDropCmd     `cmd:"" help:"Delete a generation that is not read."`
	Pause    projectionsPauseCmd    `cmd:"" help:"Feed a read model no more, until it is resumed. It is read as it is."`
	Resume   projectionsResumeCmd   `cmd:"" help:"Go on with a read model that was paused, or try one again that has stopped."`
	Skip     projectionsSkipCmd     `cmd:"" help:"Step over the event at which a read model has stopped."`
}

type projectionsListCmd struct{}

// Run prints them.
func (projectionsListCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		states, err := o.Projections(ctx)
		if err != nil {
			return err
		}
		generations, err := o.Generations(ctx)
		if err != nil {
			return err
		}
		lags, err := o.Lags(ctx)
		if err != nil {
			return err
		}
		paused := map[string]bool{}
		for _, l := range lags {
			paused[l.Projection] = l.Paused
		}
		var rows [][]any
		for _, s := range states {
			state := stateOf(s, generations, paused)
			if c.json {
				if err := printJSON(c.out, map[string]any{
					"projection": s.Projection, "generation": s.Generation, "live": s.Live, "partition": s.Partition, "lane": s.Lane,
					"next_offset": s.Checkpoint.Next, "era": s.Checkpoint.Acceptance.Era, "lag": s.Lag(), "updated_at": s.UpdatedAt, "state": state,
				}); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []any{s.Projection, shownGeneration(s.Generation, s.Live), place(s), s.Checkpoint.Next, s.Lag(), s.UpdatedAt.Format(time.DateTime), state})
		}
		if !c.json {
			printTable(c.out, []string{"Read model", "Generation", "Partition", "Next offset", "Lag", "Updated (UTC)", "State"}, rows)
		}
		return nil
	})
}

func shownGeneration(number int, live bool) string {
	if live {
		return fmt.Sprint(number, " (read)")
	}
	return fmt.Sprint(number)
}

// place is a partition, with its lane where there is more than one.
func place(s projections.State) string {
	if s.Lane == 0 {
		return fmt.Sprint(s.Partition)
	}
	return fmt.Sprint(s.Partition, " lane ", s.Lane)
}

// stateOf is what a read model does in a partition, in a word or with a reason.
func stateOf(s projections.State, generations []projections.Generation, paused map[string]bool) string {
	switch {
	case s.Stopped != nil:
		return "stopped at event " + s.Stopped.Event + ": " + s.Stopped.Reason
	case paused[s.Projection]:
		return "paused"
	}
	for _, g := range generations {
		if g.Projection == s.Projection && g.Number == s.Generation && g.State != projections.Feeding {
			return g.State
		}
	}
	return "running"
}

type projectionsLagCmd struct {
	Watch bool `help:"Again each second, until it is told to end." short:"w"`
}

// Run prints it.
func (l projectionsLagCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			lags, err := o.Lags(ctx)
			if err != nil {
				return err
			}
			if err := l.show(c, lags); err != nil || !l.Watch {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

func (l projectionsLagCmd) show(c *console, lags []projections.Lag) error {
	rows := make([][]any, len(lags))
	for i, lag := range lags {
		if c.json {
			if err := printJSON(c.out, lag); err != nil {
				return err
			}
			continue
		}
		state := "running"
		switch {
		case lag.Stopped:
			state = "stopped"
		case lag.Paused:
			state = "paused"
		}
		rows[i] = []any{lag.Projection, shownGeneration(lag.Generation, lag.Live), lag.Partition, lag.Offsets, fmt.Sprintf("%.1f s", lag.Seconds), state}
	}
	if c.json {
		return nil
	}
	if l.Watch && isTerminal(c.out) {
		fmt.Fprint(c.out, "\x1b[H\x1b[2J") // from the top of an empty screen
	}
	printTable(c.out, []string{"Read model", "Generation", "Partition", "Lag", "Time", "State"}, rows)
	return nil
}

type projectionsPauseCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run pauses.
func (p projectionsPauseCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		cancelled, err := o.PauseProjection(ctx, p.Name, operatorName())
		if err != nil {
			return err
		}
		return said(c, map[string]any{"projection": p.Name, "paused": true, "cancelled": cancelled},
			"%s is paused; reads that wait for it are answered 503. It goes on with `cairn projections resume %s`%s", p.Name, p.Name, saidCancelled(p.Name, cancelled))
	})
}

type projectionsResumeCmd struct {
	Name string `arg:"" help:"The read model."`
}

// Run resumes.
func (p projectionsResumeCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		if err := o.ResumeProjection(ctx, p.Name); err != nil {
			return err
		}
		return said(c, map[string]any{"projection": p.Name, "paused": false}, "%s goes on", p.Name)
	})
}

type projectionsSkipCmd struct {
	Name      string `arg:"" help:"The read model."`
	Partition int32  `arg:"" help:"The partition in which it has stopped."`
	Reason    string `help:"Why; it is kept." required:""`
}

// Run steps over the event.
func (s projectionsSkipCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if strings.TrimSpace(s.Reason) == "" {
		return errors.New("say why with --reason: it is kept, for who looks later")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		skipped, err := o.SkipEvent(ctx, s.Name, s.Partition, operatorName(), s.Reason)
		if err != nil {
			return err
		}
		return said(c, map[string]any{"projection": skipped.Projection, "event": skipped.Event, "partition": skipped.Partition, "offset": skipped.Offset, "had": skipped.Had},
			"%s steps over event %s (partition %d, offset %d), now and in every later generation%s", skipped.Projection, skipped.Event, skipped.Partition, skipped.Offset,
			saidHad(skipped))
	})
}

// saidHad says which generations a skip comes too late for.
func saidHad(s projections.Skipped) string {
	if len(s.Had) == 0 {
		return ""
	}
	return fmt.Sprintf("\nGeneration %s had applied it before and keeps what it did: verify finds that they differ, and reading it brings it back. `cairn projections rebuild %s` makes one without it",
		listed(s.Had), s.Projection)
}

// saidCancelled says what is not read by itself any more.
func saidCancelled(name string, cancelled []int) string {
	if len(cancelled) == 0 {
		return ""
	}
	return fmt.Sprintf("\nGeneration %s is not read by itself any more: go on with it with `cairn projections rebuild %s`, or drop it", listed(cancelled), name)
}

func listed(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, " and ")
}

// said prints an object for programs, or a sentence.
func said(c *console, object any, sentence string, args ...any) error {
	if c.json {
		return printJSON(c.out, object)
	}
	fmt.Fprintf(c.out, sentence+"\n", args...)
	return nil
}

// operatorName is who runs the command, for other people to see.
func operatorName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	who, err := user.Current()
	if err != nil {
		return host
	}
	return who.Username + "@" + host
}
