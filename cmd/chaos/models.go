package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/projectionstest"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// models judges read models and writer states: dumps that were taken under way, one at rest, and one after everything
// was thrown away and built again from the log.
type models struct {
	stage *stage.Stage
	log   *slog.Logger
	taken []dump
}

type dump struct {
	when string
	*projectionstest.Dump
}

// take dumps all read models as they stand.
func (m *models) take(ctx context.Context, when string) error {
	pool, err := pgxpool.New(ctx, m.stage.Database.Direct(migrations.Read.Name()))
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := projectionstest.Take(ctx, pool)
	if err != nil {
		return fmt.Errorf("dump the read models: %w", err)
	}
	m.taken = append(m.taken, dump{when, d})
	return nil
}

// judge compares every dump with the fold of the log. The installation is at rest.
func (m *models) judge(ctx context.Context, e history.Evidence, schema *codec.Schema) ([]history.Fault, error) {
	pool, err := pgxpool.New(ctx, m.stage.Database.Direct(migrations.Read.Name()))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	found, err := history.States(ctx, e, writerstates.New(pool), schema)
	if err != nil {
		return nil, err
	}
	if err := m.take(ctx, "at rest"); err != nil {
		return nil, err
	}
	m.log.Info("all read models are thrown away, and built again from the log")
	if err := projectionstest.Empty(ctx, pool); err != nil {
		return nil, err
	}
	// An engine looks at its checkpoints when it moves them, and nothing moves any more: as after every loss of a database,
	// the projectors are started anew.
	for _, p := range m.stage.With(app.RoleProjector) {
		p.Stop()
		if err := p.Start(); err != nil {
			return nil, err
		}
	}
	if err := m.stage.Ready(ctx); err != nil {
		return nil, err
	}
	if err := level(ctx, pool, m.stage.Partitions); err != nil {
		found = append(found, history.Fault{Law: history.ReadModels, Detail: err.Error()})
	}
	if err := m.take(ctx, "after a rebuild"); err != nil {
		return nil, err
	}
	for _, d := range m.taken {
		m.log.Info("a dump of the read models is compared with the fold of the log", "dump", d.when)
		faults, err := m.compare(ctx, d, schema, e.Logs[len(e.Logs)-1])
		if err != nil {
			return nil, err
		}
		for _, f := range faults {
			found = append(found, history.Fault{Law: f.Law, Detail: d.when + ": " + f.Detail})
		}
	}
	return found, nil
}

func (m *models) compare(ctx context.Context, d dump, schema *codec.Schema, log *history.Log) (_ []history.Fault, err error) {
	fresh, drop, err := projectionstest.Fresh(ctx, m.stage.Database.Direct("postgres"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	tailer, err := kafka.NewTailer(m.stage.Brokered())
	if err != nil {
		return nil, err
	}
	defer tailer.Close()
	folded, err := projectionstest.Fold(ctx, fresh, tailer, schema, d.Dump)
	if err != nil {
		return nil, err
	}
	return append(projectionstest.Compare(d.Dump, folded), projectionstest.Places(d.Dump, log)...), nil
}

// level waits until every read model has read the whole log.
func level(ctx context.Context, pool *pgxpool.Pool, partitions int32) error {
	limit := time.NewTimer(restWithin)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	wanted := len(projections.Names(projectionstest.Projectors(pool))) * int(partitions) // of some two revisions are compiled in
	for {
		states, err := projections.List(ctx, pool)
		if err != nil {
			return err
		}
		behind, there := int64(0), 0
		for _, s := range states {
			if s.Live {
				behind, there = behind+s.Lag(), there+1
			}
		}
		if behind == 0 && there >= wanted {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%s after they were thrown away %d of %d read models' partitions are there, and %d records behind", restWithin, there, wanted, behind)
		case <-tick.C:
		}
	}
}
