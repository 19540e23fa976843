package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/cmd/cairn/repair"
	"github.com/cairnhq/cairn/projections/vault"
)

// repairCmd mends an installation whose log lost its end.
type repairCmd struct {
	Yes bool `help:"Do it: give up what the log lost, empty the read models and the writer's states, pause effects."`
}

// errUnrepaired ends a look that found something, so that a script sees it.
var errUnrepaired = errors.New("nothing was changed: put kafka back from a later copy if there is one, else repeat it with --yes")

// Run looks, says what it found, and mends it if it is told to.
func (r repairCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if config.Embedded() && !app.HasData(config.Data) {
		return fmt.Errorf("there is nothing in %s: name the data directory with CAIRN_DATA", config.Data)
	}
	installation, err := app.OpenHere(ctx, *config, app.NewLog(quietly(*config), c.err))
	if err != nil {
		return err
	}
	defer installation.Close()
	return installation.Do(ctx, func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, installation.VaultURL)
		if err != nil {
			return err
		}
		defer pool.Close()
		repairer, err := repair.Open(ctx, repair.Installation{
			Kafka: installation.Kafka, ReadURL: installation.ReadURL, Vault: vault.Open(pool, installation.Master, time.Now),
		}, backup.NewProgress(c.err))
		if err != nil {
			return err
		}
		defer repairer.Close(ctx) //nolint:errcheck // what was to be done is done
		return r.with(ctx, repairer, c)
	})
}

func (r repairCmd) with(ctx context.Context, repairer *repair.Repairer, c *console) error {
	f, err := repairer.Look(ctx)
	if err != nil {
		return err
	}
	if err := sayFindings(c, f); err != nil || f.Nothing() {
		return err
	}
	if err := sayFeeds(c, repairer.Feeds(f)); err != nil {
		return err
	}
	if !r.Yes {
		return errUnrepaired
	}
	done, err := repairer.Mend(ctx, f)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(c.out, map[string]any{
			"repaired": true, "lost_events": len(f.Lost), "lost_decisions": f.Decisions, "tables_emptied": done.Tables,
			"commands_padded": done.Padded, "erasures_applied": done.Erased, "registrations_unfinished": done.Unfinished,
			"tiers_set_back": done.Tiers, "voids_dropped": done.Agreed.Voids,
		})
	}
	if done.Padded > 0 {
		fmt.Fprintf(c.out, "%d places in the topic of commands were filled, so that new commands are not taken for decided ones.\n", done.Padded)
	}
	if len(done.Tables) > 0 {
		fmt.Fprintf(c.out, "%d tables are empty now and are filled from the log at the next start. Effects and timers are paused, since some may be done whose outcome is lost:\nlook at `cairn effects list`, then `cairn effects resume`.\n", len(done.Tables))
	}
	return nil
}

// sayFeeds says what else is to be done where something is lost: what was published can't be taken back by a repair.
func sayFeeds(c *console, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	if c.json {
		return printJSON(c.out, map[string]any{"feeds_to_delete": topics})
	}
	_, err := fmt.Fprintf(c.out, "Of what is lost some may be published. If it is, `/readyz` says so after the start (publisher/N: the log lost its end, or\n"+
		"another log's), and nothing more is published. Then delete these topics, all of them; after the next start everything is\n"+
		"published again, under the same ids: %s\n", strings.Join(topics, ", "))
	return err
}

func sayFindings(c *console, f repair.Findings) error {
	if c.json {
		for _, lost := range f.Lost {
			if err := printJSON(c.out, map[string]any{"lost": lost}); err != nil {
				return err
			}
		}
		if f.Nothing() {
			return printJSON(c.out, map[string]bool{"repaired": false})
		}
		return nil
	}
	for _, ahead := range f.Ahead {
		fmt.Fprintln(c.out, ahead)
	}
	for partition, next := range f.Passed {
		fmt.Fprintf(c.out, "partition %d of the commands ends before %d, which the log has decided\n", partition, next)
	}
	if f.Nothing() {
		fmt.Fprintln(c.out, "There is nothing to repair: the read models and the writer know nothing that the log does not have.")
		return nil
	}
	rows := make([][]any, len(f.Lost))
	for i, l := range f.Lost {
		rows[i] = []any{l.Scope, l.Stream, l.Version, l.Position, l.Type, l.At, l.CommandID}
	}
	fmt.Fprintf(c.out, "Lost: %d events, by %d decided commands.\n", len(f.Lost), f.Decisions)
	if len(rows) > 0 {
		printTable(c.out, []string{"Scope", "Stream", "Version", "Position", "Type", "At", "Command"}, rows)
	}
	return nil
}
