package app

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
)

// voided asks the vault for voids; it needs no master key. Close lets go of the vault.
func (c Config) voided(ctx context.Context, era int) (ask func(context.Context, int32) (map[int64]bool, error), closing func(), err error) {
	pool, err := pgxpool.New(ctx, c.VaultURL)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the vault: %w", err)
	}
	return func(ctx context.Context, partition int32) (map[int64]bool, error) {
		voids, err := vault.Voided(ctx, pool, era)
		offsets := map[int64]bool{}
		for _, void := range voids {
			if void.Partition == partition {
				offsets[void.Offset] = true
			}
		}
		return offsets, err
	}, pool.Close, nil
}

// Voided is a record that was voided.
type Voided struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Scope     string `json:"scope"`
	CommandID string `json:"command_id"`
	// Resumed are the read models that had stopped there; Passed those that had taken it before, and so differ from the log
	// as it counts now.
	Resumed []string `json:"resumed"`
	Passed  []string `json:"passed"`
}

// Void lets a counted record of the log count as a commit without events.
func (o *Operator) Void(ctx context.Context, partition int32, offset int64, reason string) (Voided, error) {
	done := Voided{Partition: partition, Offset: offset}
	if err := o.openVault(ctx); err != nil {
		return done, err
	}
	config, err := o.config.kafka()
	if err != nil {
		return done, err
	}
	if partition < 0 || partition >= config.Topics.N() {
		return done, fmt.Errorf("the log has partitions 0 to %d", config.Topics.N()-1)
	}
	config.Voided = o.vault.Voided(config.Topics.CurrentEra())
	note := voidNote{o.vault, vault.Void{Era: config.Topics.CurrentEra(), Partition: partition, Offset: offset, Reason: reason}}
	commit, err := config.Void(ctx, writerstates.New(o.read), partition, offset, note)
	if err != nil {
		return done, err
	}
	done.Scope, done.CommandID = string(commit.Scope), commit.CommandID
	models, err := projections.List(ctx, o.read)
	if err != nil {
		return done, err
	}
	for _, s := range models {
		if s.Partition == partition && s.Checkpoint.Next > offset {
			done.Passed = append(done.Passed, s.Projection)
		}
	}
	done.Resumed, err = projections.Retry(ctx, o.read, partition, offset)
	return done, err
}

// voidNote is a void as kafka.Config.Void notes it in the vault.
type voidNote struct {
	vault *vault.Vault
	void  vault.Void
}

// Note implements kafka.VoidNotes.
func (n voidNote) Note(ctx context.Context) error { return n.vault.Void(ctx, n.void) }

// TakeBack implements kafka.VoidNotes.
func (n voidNote) TakeBack(ctx context.Context) error { return n.vault.TakeBack(ctx, n.void) }
