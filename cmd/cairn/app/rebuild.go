package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// RebuildOptions say what an operator rebuilds.
type RebuildOptions struct {
	Names    []string // none: all
	Swap     projections.SwapMode
	By       string
	MaxRate  int
	Memory   int64
	Room     Room
	Progress func(projections.RebuildProgress)
	Log      *slog.Logger
	// Projectors are what is compiled in; nil: this program's.
	Projectors []projections.Projector
}

// Room says whether a rebuild needs room.
type Room int

// A rebuild begins only where there is room for it, or anyway.
const (
	EnoughRoom Room = iota
	AnyRoom
)

// Rebuild rebuilds read models of a running Cairn in this process. Where another does so already it is followed, and what it leaves
// is taken up.
func (o *Operator) Rebuild(ctx context.Context, options RebuildOptions) ([]projections.Rebuilt, error) {
	cfg := projections.RebuildConfig{
		Pool: o.read, Projectors: options.Projectors, Names: options.Names, Swap: options.Swap, By: options.By, MaxRate: options.MaxRate,
		Memory: options.Memory, Progress: options.Progress, Log: options.Log, Ready: everybodyReads(o.Work()),
	}
	if cfg.Projectors == nil {
		cfg.Projectors = Projectors(o.read)
	}
	if len(cfg.Names) == 0 {
		cfg.Names = projections.Names(cfg.Projectors)
	}
	if options.Room == EnoughRoom {
		cfg.Free = o.config.free()
	}
	var err error
	if cfg.Schema, err = codec.New(aggregates.All()...); err != nil {
		return nil, err
	}
	tailer, err := o.tailer(ctx)
	if err != nil {
		return nil, err
	}
	defer tailer.Close()
	cfg.Tailer = tailer
	return projections.FollowOrRebuild(ctx, cfg)
}

// tailer reads the log as engines do.
func (o *Operator) tailer(ctx context.Context) (*kafka.Tailer, error) {
	config, err := o.config.kafka()
	if err != nil {
		return nil, err
	}
	voided, closing, err := o.config.voided(ctx, config.Topics.CurrentEra())
	if err != nil {
		return nil, err
	}
	o.close = append(o.close, closing)
	config.Voided = voided
	config.Around = events.New(projections.NewDB(o.read)).Around(config.Topics.CurrentEra())
	return kafka.NewTailer(config)
}

// free is how much the embedded database may grow; nil where the database is elsewhere.
func (c Config) free() func() (uint64, error) {
	home := filepath.Join(c.Data, "postgres")
	if _, err := os.Stat(home); err != nil {
		return nil
	}
	if elsewhere, err := os.ReadFile(filepath.Join(home, "location")); err == nil {
		home = strings.TrimSpace(string(elsewhere))
	}
	return func() (uint64, error) {
		var stat syscall.Statfs_t
		if err := syscall.Statfs(home, &stat); err != nil {
			return 0, fmt.Errorf("look at the disk of %s: %w", home, err)
		}
		return stat.Bavail * uint64(stat.Bsize), nil //nolint:gosec,unconvert // signed on other systems
	}
}

// startRebuilder rebuilds what a release changed, and what others left.
func (a *App) startRebuilder(projectors []projections.Projector) {
	r := projections.NewRebuilder(projections.RebuilderConfig{RebuildConfig: projections.RebuildConfig{
		Pool: a.infra.read, Tailer: a.tailer, Schema: a.schema, Projectors: projectors, Swap: projections.SwapMode(a.config.RebuildSwap),
		MaxRate: a.config.RebuildRate, Free: a.config.free(), Ready: everybodyReads(a.work), Log: a.log,
	}})
	a.life.start("rebuilds", r.Run)
}

// checkRevisions refuses to serve what a newer release swapped to: nothing here knows its tables.
func (a *App) checkRevisions(ctx context.Context) error {
	all, err := projections.Generations(ctx, a.infra.read)
	if err != nil {
		return err
	}
	var faults []error
	reads := readRevisions(Projectors(a.infra.read))
	for _, g := range all {
		if newest, known := reads[g.Projection]; g.Live && known && g.Revision > newest {
			faults = append(faults, fmt.Errorf("the read model %s is at revision %d, and this release reads up to %d: let a newer release roll it back first, with `cairn projections rollback %s`",
				g.Projection, g.Revision, newest, g.Projection))
		}
	}
	return errors.Join(faults...)
}
