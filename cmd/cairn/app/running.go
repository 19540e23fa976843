package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cairnhq/cairn/projections/work"
)

// announceEvery is how often a process says that it runs, and looks whether it still may.
const announceEvery = 3 * time.Second

// ErrNewerLevel says that the log may hold what this release can't read.
var ErrNewerLevel = errors.New("the upgrade was finalized, and this release can't read all that is written since")

// openLevel announces the process and refuses a log that may hold what it can't read. It announces first: who finalizes an
// upgrade then sees it, or it sees that the upgrade is finalized.
func (a *App) openLevel(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a.self = work.Process{
		ID: rand.Text(), Version: a.version, Roles: strings.Join(a.config.Roles, ","), Host: fmt.Sprintf("%s/%d", host, pid()), Level: a.schema.Level(),
		Revisions: readRevisions(Projectors(a.infra.read)),
	}
	a.work = work.New(a.infra.read)
	if err := a.work.Announce(ctx, a.self); err != nil {
		return err
	}
	a.infra.kafka.Level = func() int { return int(a.level.Load()) }
	err = a.checkLevel(ctx)
	if err != nil {
		return errors.Join(err, a.work.Withdraw(ctx, a.self.ID))
	}
	a.life.start("announce", a.announceAlways)
	return nil
}

// checkLevel takes over the level that may be written.
func (a *App) checkLevel(ctx context.Context) error {
	level, err := a.vault.FormatLevel(ctx)
	if err != nil {
		return err
	}
	if level > a.self.Level {
		return fmt.Errorf("the format level is %d, and this release (%s) knows %d: %w", level, a.version, a.self.Level, ErrNewerLevel)
	}
	a.level.Store(int64(level))
	return nil
}

// announceAlways ends the process when it may not run any more: the upgrade was finalized without it, or the log moved.
func (a *App) announceAlways(ctx context.Context) error {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := a.work.Withdraw(short, a.self.ID); err != nil {
				a.log.Debug("the process's row stays", "error", err)
			}
			return ctx.Err()
		case <-tick.C:
		}
		err := errors.Join(a.work.Announce(ctx, a.self), a.checkLevel(ctx), a.checkMigrated(ctx))
		switch {
		case errors.Is(err, ErrNewerLevel), errors.Is(err, errMoved):
			return err
		case err != nil && ctx.Err() == nil:
			a.log.Warn("whether this process may still run is not known", "error", err)
		}
	}
}

// errMoved ends a process of the old log.
var errMoved = errors.New("this process must not go on")

// checkMigrated looks whether the log went on elsewhere. A process that goes on would take effects, and ask for their
// outcomes to be recorded where nobody decides any more.
func (a *App) checkMigrated(ctx context.Context) error {
	stored, err := a.infra.kafka.Stored(ctx, 0)
	if err != nil {
		return err
	}
	if err := a.infra.kafka.Topics.CheckEra("the writer", 0, stored); err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	return nil
}
