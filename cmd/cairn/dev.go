package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/tour"
	"github.com/cairnhq/cairn/domain"
)

// devCmd runs everything in one process.
type devCmd struct {
	Tour string `help:"Show the product at work after the start: yes, no, or only (then exit)." default:"no" enum:"yes,no,only"`
}

// Run starts, shows the tour if asked to, and serves until it is told to stop.
func (d devCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	config.Roles = app.AllRoles()
	if !config.Embedded() {
		return errors.New("`cairn dev` brings its own broker: unset CAIRN_BROKERS, or use `cairn serve`")
	}
	if d.Tour != "no" && config.LogLevel == "info" {
		config.LogLevel = "warn" // the tour is what one wants to read
	}
	log := app.NewLog(*config, c.err)
	began := time.Now()
	fmt.Fprintln(c.err, "cairn: starting broker and database in", config.Data)
	running, err := app.Start(ctx, *config, version, log)
	if err != nil {
		return err
	}
	defer running.Stop()
	fmt.Fprintf(c.err, "cairn: ready after %.1f s\n", time.Since(began).Seconds())
	if d.Tour != "no" {
		if err := takeTour(ctx, *config, running, c.out); err != nil {
			return err
		}
		if d.Tour == "only" {
			return nil
		}
	}
	if c.json {
		if err := printJSON(c.out, map[string]string{"serving": running.URL()}); err != nil {
			return err
		}
		return running.Wait(ctx)
	}
	fmt.Fprintf(c.out, "\nServing on %s. Chat with `bin/cairn chat --register you@example.com`, read the log with `bin/cairn events tail`. Ctrl-C ends it.\n", running.URL())
	return running.Wait(ctx)
}

func takeTour(ctx context.Context, config app.Config, running *app.App, out io.Writer) error {
	dir, err := os.MkdirTemp(config.Data, "tour-")
	if err != nil {
		return fmt.Errorf("make room for the tour's device: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch
	return tour.Run(ctx, tour.Options{
		URL: running.URL(), DB: filepath.Join(dir, "device.db"), Timezone: localZone(), Out: out,
		Events: func(ctx context.Context, out io.Writer, scope, run string) error {
			return running.TailRun(ctx, out, domain.Scope(scope), run)
		},
	})
}

// localZone is the machine's time zone as the device says it; "Local" has no IANA name, and UTC is honest.
func localZone() string {
	if name := os.Getenv("TZ"); name != "" {
		if _, err := time.LoadLocation(name); err == nil {
			return name
		}
	}
	if target, err := os.Readlink("/etc/localtime"); err == nil {
		for dir := filepath.Dir(target); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
			if name, err := filepath.Rel(dir, target); err == nil && filepath.Base(dir) == "zoneinfo" {
				return name
			}
		}
	}
	return "UTC"
}

// serveCmd runs chosen roles.
type serveCmd struct {
	Role []string `help:"Roles of this process: api, writer, projector, gateway, effects, policies, publisher. Default: all." sep:","`
}

// Run serves until it is told to stop.
func (s serveCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	config.Roles = s.Role
	if len(s.Role) == 0 {
		config.Roles = app.AllRoles()
	}
	if config.Embedded() {
		return errors.New("`cairn serve` needs brokers: set CAIRN_BROKERS, CAIRN_DATABASE_URL and CAIRN_VAULT_URL, or use `cairn dev`")
	}
	running, err := app.Start(ctx, *config, version, app.NewLog(*config, c.err))
	if err != nil {
		return err
	}
	defer running.Stop()
	if c.json {
		if err := printJSON(c.out, map[string]string{"serving": running.URL()}); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(c.err, "cairn: serving on", running.URL())
	}
	return running.Wait(ctx)
}

// migrateCmd creates topics and brings the databases up to date.
type migrateCmd struct{}

// Run does both; it may be run again.
func (migrateCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	attached, _, err := config.Attach()
	if err != nil {
		return err
	}
	if err := app.Migrate(ctx, attached); err != nil {
		return err
	}
	if c.json {
		return printJSON(c.out, map[string]bool{"migrated": true})
	}
	fmt.Fprintln(c.out, "topics and databases are up to date")
	return nil
}
