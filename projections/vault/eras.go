package vault

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Begin is where a policy began in a partition of the log.
type Begin struct {
	Policy    string
	Partition int32
	Next      int64
}

// Begins are where the policies began in an era.
func (v *Vault) Begins(ctx context.Context, era int) ([]Begin, error) {
	var begins []Begin
	err := v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT policy, partition, next_offset FROM policy_begins WHERE era = $1 ORDER BY policy, partition`, era)
		if err != nil {
			return err
		}
		begins, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Begin])
		return err
	})
	return begins, err
}

// BeginEra writes what a migration carries into an era that nobody has used yet: voids and where policies begin. What an
// interrupted migration left of it goes.
func (v *Vault) BeginEra(ctx context.Context, era int, voids []Void, begins []Begin) error {
	return v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`DELETE FROM voids WHERE era = $1`, era)
		batch.Queue(`DELETE FROM policy_begins WHERE era = $1`, era)
		for _, void := range voids {
			batch.Queue(`INSERT INTO voids (era, partition, log_offset, reason, voided_at) VALUES ($1, $2, $3, $4, $5)`,
				era, void.Partition, void.Offset, void.Reason, v.now())
		}
		for _, b := range begins {
			batch.Queue(`INSERT INTO policy_begins (policy, era, partition, next_offset, began_at) VALUES ($1, $2, $3, $4, $5)`,
				b.Policy, era, b.Partition, b.Next, v.now())
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}
