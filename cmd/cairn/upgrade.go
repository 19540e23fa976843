package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

type upgradeCmd struct {
	Status   upgradeStatusCmd   `cmd:"" help:"Which releases run, and what waits until the upgrade is finalized."`
	Finalize upgradeFinalizeCmd `cmd:"" help:"Let this release write all that it knows: from then on there is no way back to the one before."`
}

type upgradeStatusCmd struct{}

// Run prints it.
func (upgradeStatusCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	return operating(ctx, config, func(o *app.Operator) error {
		u, err := o.UpgradeStatus(ctx)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, u)
		}
		rows := make([][]any, len(u.Processes))
		for i, p := range u.Processes {
			rows[i] = []any{p.Host, p.Version, p.Roles, p.Level, p.StartedAt.Format(time.DateTime)}
		}
		printTable(c.out, []string{"Process", "Version", "Roles", "Reads up to level", "Started (UTC)"}, rows)
		fmt.Fprintf(c.out, "\nWritten up to level %d; this release knows %d.\n", u.Level, u.Knows)
		switch {
		case u.Level >= u.Knows:
			fmt.Fprintln(c.out, "There is nothing to finalize.")
		case u.CanFinish:
			fmt.Fprintf(c.out, "Not written yet: %s. Every running process can read it: `cairn upgrade finalize`, when you do not want to go back any more.\n", strings.Join(u.New, ", "))
		default:
			fmt.Fprintf(c.out, "Not written yet: %s. These processes can't read it: %s.\n", strings.Join(u.New, ", "), strings.Join(u.Behind, "; "))
		}
		return nil
	})
}

type upgradeFinalizeCmd struct {
	Yes bool `help:"Do it. No older release can be started afterwards."`
}

// Run finalizes.
func (f upgradeFinalizeCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if !f.Yes {
		return errors.New("after this no older release can be started on this data: repeat it with --yes")
	}
	return operating(ctx, config, func(o *app.Operator) error {
		u, err := o.Finalize(ctx)
		if errors.Is(err, app.ErrBehind) {
			return fmt.Errorf("%w (replace it by this release, or end it, and repeat this; one that was killed is forgotten after a minute)", err)
		}
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(c.out, u)
		}
		fmt.Fprintf(c.out, "The format level is %d: all that this release knows is written within seconds.\n", u.Level)
		return nil
	})
}
