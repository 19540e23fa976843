package projectionstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Fold applies the log to the empty tables of fresh, each model up to exactly the places where it stood in at, and dumps
// them.
func Fold(ctx context.Context, fresh *pgxpool.Pool, log streams.Tailer, schema *codec.Schema, at *Dump) (*Dump, error) {
	if err := projections.Ensure(ctx, fresh, Projectors(fresh), 1); err != nil {
		return nil, fmt.Errorf("fold: %w", err)
	}
	for partition := range log.Partitions() {
		end := int64(0)
		for _, p := range at.Places {
			for _, lane := range p[partition] {
				end = max(end, lane.Next)
			}
		}
		commits, err := read(ctx, log, partition, end)
		if err != nil {
			return nil, err
		}
		for _, m := range Models(fresh) {
			had := upToLanes(commits, at.Places[m.Projector.Name()][partition])
			g, err := projections.LiveGeneration(ctx, fresh, m.Projector.Name())
			if err != nil {
				return nil, fmt.Errorf("fold: %w", err)
			}
			if err := apply(ctx, fresh, schema, g, m.Projector, partition, had); err != nil {
				return nil, err
			}
		}
	}
	return Take(ctx, fresh)
}

var errRead = errors.New("read to the end")

// read reads the counted commits of a partition below an offset.
func read(ctx context.Context, log streams.Tailer, partition int32, end int64) ([]streams.Commit, error) {
	var commits []streams.Commit
	if end == 0 {
		return nil, nil
	}
	last, err := log.End(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("fold: %w", err)
	}
	if last < end {
		return nil, fmt.Errorf("fold: a model stands at offset %d of partition %d, and the log ends at %d", end, partition, last)
	}
	err = log.Tail(ctx, partition, streams.Start(), func(_ context.Context, b streams.Batch) error {
		commits = append(commits, upTo(b.Commits, end)...)
		if b.Next.Next >= end {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		return nil, fmt.Errorf("fold: reading partition %d to %d: %w", partition, end, err)
	}
	return commits, nil
}

func upTo(commits []streams.Commit, end int64) []streams.Commit {
	for i := range commits {
		if commits[i].Place.Offset >= end {
			return commits[:i]
		}
	}
	return commits
}

// upToLanes are the commits that lanes had, each those of its scopes below its place.
func upToLanes(commits []streams.Commit, lanes []streams.Checkpoint) []streams.Commit {
	var had []streams.Commit
	for _, c := range commits {
		if len(lanes) > 0 && c.Place.Offset < lanes[projections.LaneOf(c.Scope, len(lanes))].Next {
			had = append(had, c)
		}
	}
	return had
}

// piece is how many commits are applied in one transaction. Another number than the engine's, on purpose.
const piece = 777

func apply(ctx context.Context, pool *pgxpool.Pool, schema *codec.Schema, g projections.Generation, p projections.Projector, partition int32, commits []streams.Commit) error {
	for len(commits) > 0 {
		n := min(piece, len(commits))
		tx, err := pool.Begin(ctx)
		if err != nil {
			return fmt.Errorf("fold: %w", err)
		}
		batch := projections.NewBatch(schema, g, partition, commits[:n])
		err = p.Apply(ctx, tx, batch)
		if err == nil {
			err = batch.Flush(ctx, tx)
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx))
			return fmt.Errorf("fold: %s, partition %d, commits from offset %d: %w", p.Name(), partition, commits[0].Place.Offset, err)
		}
		commits = commits[n:]
	}
	return nil
}

// Fresh makes an empty migrated database of read models on the server that dsn names. Drop removes it.
func Fresh(ctx context.Context, dsn string) (pool *pgxpool.Pool, drop func() error, err error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("fresh database: %w", err)
	}
	name := "fold_" + strings.ToLower(rand.Text())
	if err := execute(ctx, config.ConnConfig, "CREATE DATABASE "+name); err != nil {
		return nil, nil, err
	}
	drop = func() error {
		if pool != nil {
			pool.Close()
		}
		return execute(context.WithoutCancel(ctx), config.ConnConfig, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}
	own := config.Copy()
	own.ConnConfig.Database = name
	registered := stdlib.RegisterConnConfig(own.ConnConfig)
	defer stdlib.UnregisterConnConfig(registered)
	if err = migrations.Up(ctx, registered, migrations.Read); err == nil {
		pool, err = pgxpool.NewWithConfig(ctx, own)
	}
	if err == nil { // the tables of models that are younger than the registry
		err = projections.Ensure(ctx, pool, Projectors(pool), 1)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fresh database: %w", err), drop())
	}
	return pool, drop, nil
}

func execute(ctx context.Context, config *pgx.ConnConfig, statement string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("fresh database: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// Empty throws every read model of a database away, with its checkpoints, as an operator does before a rebuild. No engine
// may run meanwhile: one that does learns of it only when its next batch finds no checkpoint to move.
func Empty(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		found, err := projections.Generations(ctx, tx)
		if err != nil {
			return err
		}
		tables := []string{"projection_checkpoints"}
		for _, g := range found {
			for _, table := range g.Tables {
				tables = append(tables, g.Table(table))
			}
		}
		_, err = tx.Exec(ctx, "TRUNCATE "+strings.Join(tables, ", "))
		return err
	})
}
