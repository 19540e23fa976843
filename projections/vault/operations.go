package vault

import (
	"context"
	"fmt"
)

// Void is a record of the log that counts as a commit without events.
type Void struct {
	Era       int
	Partition int32
	Offset    int64
	Reason    string
}

// Void notes that an operator voids a record. Voiding again keeps the first reason.
func (v *Vault) Void(ctx context.Context, what Void) error {
	if what.Reason == "" {
		return fmt.Errorf("vault: a void needs a reason")
	}
	_, err := v.exec(ctx, `INSERT INTO voids (era, partition, log_offset, reason, voided_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		what.Era, what.Partition, what.Offset, what.Reason, v.now())
	return err
}

// TakeBack drops the void of a record that the writer had taken: it never took effect.
func (v *Vault) TakeBack(ctx context.Context, what Void) error {
	_, err := v.exec(ctx, `DELETE FROM voids WHERE era = $1 AND partition = $2 AND log_offset = $3`, what.Era, what.Partition, what.Offset)
	return err
}

// Voids are all voids of an era.
func (v *Vault) Voids(ctx context.Context, era int) ([]Void, error) {
	if err := v.Check(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := v.pool.Query(ctx, `SELECT era, partition, log_offset, reason FROM voids WHERE era = $1 ORDER BY partition, log_offset`, era)
	if err != nil {
		return nil, unreachable(err)
	}
	defer rows.Close()
	var voids []Void
	for rows.Next() {
		var one Void
		if err := rows.Scan(&one.Era, &one.Partition, &one.Offset, &one.Reason); err != nil {
			return nil, unreachable(err)
		}
		voids = append(voids, one)
	}
	if err := rows.Err(); err != nil {
		return nil, unreachable(err)
	}
	return voids, nil
}

// PolicyBegin is the log offset at which a policy began in a partition: next, the first time it is asked. In a log that
// was moved since, it is the first record: nothing that lay before the policy's place on the day of the move is left out.
func (v *Vault) PolicyBegin(ctx context.Context, policy string, era int, partition int32, next int64) (int64, error) {
	if _, err := v.exec(ctx, `
		INSERT INTO policy_begins (policy, era, partition, next_offset, began_at)
		VALUES ($1, $2, $3, CASE WHEN EXISTS (SELECT 1 FROM policy_begins WHERE policy = $1 AND era < $2) THEN 0 ELSE $4::bigint END, $5)
		ON CONFLICT DO NOTHING`,
		policy, era, partition, next, v.now()); err != nil {
		return 0, err
	}
	var began int64
	err := v.row(ctx, []any{&began}, `SELECT next_offset FROM policy_begins WHERE policy = $1 AND era = $2 AND partition = $3`, policy, era, partition)
	return began, err
}

// FormatLevel is the level of types and schemas that every running process can read.
func (v *Vault) FormatLevel(ctx context.Context) (int, error) {
	var level int
	err := v.row(ctx, []any{&level}, `SELECT format_level FROM vault`)
	return level, err
}

// RaiseFormatLevel raises the level; it never goes down.
func (v *Vault) RaiseFormatLevel(ctx context.Context, level int) error {
	_, err := v.exec(ctx, `UPDATE vault SET format_level = GREATEST(format_level, $1)`, level)
	return err
}

// Voided is a reader's question for the voids of an era (kafka.Config.Voided).
func (v *Vault) Voided(era int) func(ctx context.Context, partition int32) (map[int64]bool, error) {
	return func(ctx context.Context, partition int32) (map[int64]bool, error) {
		voids, err := v.Voids(ctx, era)
		if err != nil {
			return nil, err
		}
		offsets := map[int64]bool{}
		for _, void := range voids {
			if void.Partition == partition {
				offsets[void.Offset] = true
			}
		}
		return offsets, nil
	}
}
