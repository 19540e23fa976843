// Package migrate moves a Cairn to new topics: the log is copied into the next era, what reads it goes on at the copy's
// end with its rows as they are, and where they go to other databases they are copied, too. The copying of the log itself
// is streams/kafka's.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/places"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Installation is where a Cairn is: its topics and its databases.
type Installation struct {
	Kafka             kafka.Config
	ReadURL, VaultURL string
}

// Plan says what to move where.
type Plan struct {
	From, To Installation // the same databases, or others that are empty
	Master   []byte
	// Projectors are all that there are.
	Projectors func(*pgxpool.Pool) []projections.Projector
	Now        func() time.Time
	Log        *slog.Logger
	Progress   *backup.Progress
}

// move is a Plan under way.
type move struct {
	Plan
	schema      *codec.Schema
	read, vault *pgxpool.Pool // of From
	keys        *vault.Vault
	states      *writerstates.States
	closed      []streams.Checkpoint
	done        kafka.Migrated
	policies    []policy
}

// ErrDone is the answer where the databases say that this log was migrated before.
var ErrDone = errors.New("this log was migrated already")

// Run moves everything. What it answers an error for is as it was, but for the old log, which may be closed by then: then
// running it again, into empty topics, is the only way on.
func Run(ctx context.Context, plan Plan) (kafka.Migrated, error) {
	m := &move{Plan: plan}
	err := m.run(ctx)
	return m.done, err
}

func (m *move) run(ctx context.Context) error {
	var err error
	if m.schema, err = codec.New(aggregates.All()...); err != nil {
		return err
	}
	for _, database := range []struct {
		url   string
		which migrations.Database
		pool  **pgxpool.Pool
	}{{m.From.ReadURL, migrations.Read, &m.read}, {m.From.VaultURL, migrations.Vault, &m.vault}} {
		if err := migrations.Up(ctx, database.url, database.which); err != nil {
			return err
		}
		if *database.pool, err = pgxpool.New(ctx, database.url); err != nil {
			return fmt.Errorf("connect to database %s: %w", database.which.Name(), err)
		}
		defer (*database.pool).Close()
	}
	m.keys, m.states = vault.Open(m.vault, m.Master, m.Now), writerstates.New(m.read)
	m.From.Kafka.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := m.states.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	m.From.Kafka.Voided = m.keys.Voided(m.From.Kafka.Topics.CurrentEra())
	if err := m.check(ctx); err != nil {
		return err
	}
	return m.carry(ctx)
}

// check refuses what can't be done before anything is changed.
func (m *move) check(ctx context.Context) error {
	if err := m.keys.Check(ctx); err != nil {
		return err
	}
	topics := m.From.Kafka.Topics
	for p := range topics.N() {
		at, err := m.From.Kafka.Stored(ctx, p)
		if err != nil {
			return err
		}
		if err := topics.CheckEra("the writer", p, at); err != nil {
			return fmt.Errorf("%w: %w", ErrDone, err)
		}
	}
	if m.moves() {
		if err := emptyDatabases(ctx, m.To); err != nil {
			return err
		}
	}
	return m.migration().Check(ctx)
}

// moves reports whether the databases are copied, too.
func (m *move) moves() bool { return m.To.ReadURL != m.From.ReadURL }

func (m *move) migration() *kafka.Migration {
	return &kafka.Migration{From: m.From.Kafka, To: m.To.Kafka, Now: m.Now, Progress: func(p kafka.Progress) {
		m.Progress.Step(p.Phase, p.Done, p.Total)
	}}
}

func (m *move) carry(ctx context.Context) error {
	log := m.migration()
	m.Progress.Say("closing the old log: from here on nothing counts in it")
	var err error
	if m.closed, err = log.Close(ctx); err != nil {
		return err
	}
	m.Progress.Say("bringing read models and writer states to its end")
	if err := m.settle(ctx); err != nil {
		return err
	}
	if m.policies, err = m.findPolicies(ctx); err != nil {
		return err
	}
	log.Last = m.last()
	m.Progress.Say("copying the log")
	if m.done, err = log.Copy(ctx, m.closed); err != nil {
		return err
	}
	return m.databases(ctx)
}

// databases gives every reader its new checkpoint, last of all in one transaction: before it the migration did not happen.
func (m *move) databases(ctx context.Context) error {
	read, keys := m.read, m.keys
	if m.moves() {
		m.Progress.Say("copying the databases")
		target, vaults, err := m.copyDatabases(ctx)
		if err != nil {
			return err
		}
		defer target.Close()
		defer vaults.Close()
		read, keys = target, vault.Open(vaults, m.Master, m.Now)
	}
	if err := m.beginVault(ctx, keys); err != nil {
		return err
	}
	closed := make([]streams.Acceptance, len(m.closed))
	for p, at := range m.closed {
		closed[p] = at.Acceptance
	}
	return pgx.BeginFunc(ctx, read, func(tx pgx.Tx) error {
		if err := projections.BeginEra(ctx, tx, closed, m.done.Ends); err != nil {
			return err
		}
		if err := writerstates.BeginEra(ctx, tx, closed, m.done.Ends); err != nil {
			return err
		}
		for _, p := range m.Projectors(read) {
			if r, ok := p.(projections.Repartitioner); ok {
				if err := r.Repartition(ctx, tx, m.To.Kafka.Topics.PartitionOf); err != nil {
					return err
				}
			}
		}
		return places.BeginEra(ctx, tx, m.To.Kafka.Topics.CurrentEra(), m.newPlaces())
	})
}

// beginVault carries voids and where policies begin into the new era.
func (m *move) beginVault(ctx context.Context, keys *vault.Vault) error {
	old, err := m.keys.Voids(ctx, m.From.Kafka.Topics.CurrentEra())
	if err != nil {
		return err
	}
	reasons := map[streams.Place]string{}
	for _, v := range old {
		reasons[streams.Place{Partition: v.Partition, Offset: v.Offset}] = v.Reason
	}
	var voids []vault.Void
	for _, v := range m.done.Voids {
		voids = append(voids, vault.Void{Partition: v.To.Partition, Offset: v.To.Offset, Reason: reasons[v.From]})
	}
	return keys.BeginEra(ctx, m.To.Kafka.Topics.CurrentEra(), voids, m.newBegins())
}
