package writerstates

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
)

// Store implements streams.States. The checkpoint is moved first; who loses there writes nothing.
func (s *States) Store(ctx context.Context, f streams.Flush) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := move(ctx, tx, f); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		if err := queue(batch, f); err != nil {
			return err
		}
		if batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("writer states: store: %w", err)
	}
	return nil
}

// move takes the checkpoint from the value that is expected, in full: a checkpoint that is the same offset
// under another lead is another's. A partition never stored stands at the start.
func move(ctx context.Context, tx pgx.Tx, f streams.Flush) error {
	was, now := f.Expected.Acceptance, f.Next.Acceptance
	tag, err := tx.Exec(ctx, `INSERT INTO writer_checkpoints AS c (partition, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, cairn_now()
		 WHERE $9 OR EXISTS (SELECT 1 FROM writer_checkpoints WHERE partition = $1)
		ON CONFLICT (partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, era = EXCLUDED.era, lead = EXCLUDED.lead, writer = EXCLUDED.writer,
			closed = EXCLUDED.closed, after_era = EXCLUDED.after_era, command_offset = EXCLUDED.command_offset, updated_at = EXCLUDED.updated_at
		 WHERE (c.next_offset, c.era, c.lead, c.writer, c.closed, c.after_era, c.command_offset) = ($10, $11, $12, $13, $14, $15, $16)`,
		f.Partition, f.Next.Next, now.Era, now.Lead, now.Writer, now.Closed, now.After.Era, now.After.Offset,
		f.Expected == streams.Start(),
		f.Expected.Next, was.Era, was.Lead, was.Writer, was.Closed, was.After.Era, was.After.Offset)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 && !safety.Off(safety.Flush) {
		return streams.ErrFlushConflict
	}
	return nil
}

func queue(batch *pgx.Batch, f streams.Flush) error {
	queueStates(batch, f.States)
	queueScopes(batch, f.Scopes)
	return queueAnswers(batch, f.Answers)
}

// queueStates writes a row only by a higher version, or by another fold of the same one.
func queueStates(batch *pgx.Batch, rows []streams.StateRow) {
	newest := map[streams.StreamKey]streams.StateRow{} // a statement may touch a row once
	for _, r := range rows {
		key := streams.StreamKey{Scope: r.Scope, Stream: r.Stream}
		if old, ok := newest[key]; !ok || r.Version >= old.Version {
			newest[key] = r
		}
	}
	var scopes, names []string
	var versions []int64
	var folds []int32
	var hashes, states [][]byte
	for key, r := range newest {
		scopes, names = append(scopes, string(key.Scope)), append(names, string(key.Stream))
		versions, folds = append(versions, int64(r.Version)), append(folds, int32(r.Fold))
		hashes, states = append(hashes, present(r.Hash)), append(states, present(r.State))
	}
	if len(scopes) == 0 {
		return
	}
	batch.Queue(`INSERT INTO writer_states AS w (scope, stream, version, fold, hash, state)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::bytea[], $6::bytea[])
		ON CONFLICT (scope, stream) DO UPDATE SET version = EXCLUDED.version, fold = EXCLUDED.fold, hash = EXCLUDED.hash, state = EXCLUDED.state
		 WHERE EXCLUDED.version > w.version OR EXCLUDED.version = w.version AND EXCLUDED.fold <> w.fold`,
		scopes, names, versions, folds, hashes, states)
}

// queueScopes writes a row only by a position that is not lower; erased stays erased.
func queueScopes(batch *pgx.Batch, rows []streams.ScopeRow) {
	newest := map[string]streams.ScopeRow{}
	for _, r := range rows {
		if old, ok := newest[string(r.Scope)]; !ok || r.Position >= old.Position {
			r.Erased = r.Erased || old.Erased
			newest[string(r.Scope)] = r
		}
	}
	var scopes, times []string
	var positions []int64
	var erased []bool
	for scope, r := range newest {
		scopes, times = append(scopes, scope), append(times, r.DecidedAt)
		positions, erased = append(positions, int64(r.Position)), append(erased, r.Erased)
	}
	if len(scopes) == 0 {
		return
	}
	batch.Queue(`INSERT INTO writer_scopes AS w (scope, position, decided_at, erased)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bool[])
		ON CONFLICT (scope) DO UPDATE SET position = EXCLUDED.position, decided_at = EXCLUDED.decided_at, erased = w.erased OR EXCLUDED.erased
		 WHERE EXCLUDED.position >= w.position`, scopes, positions, times, erased)
}

// queueAnswers keeps the first answer to an id.
func queueAnswers(batch *pgx.Batch, rows []streams.AnswerRow) error {
	var scopes, times []string
	var commands, fingerprints, rejections, heads [][]byte
	var positions, offsets []int64
	var eras, partitions []int32
	for _, r := range rows {
		var rejected []byte
		if r.Rejected != nil {
			var err error
			if rejected, err = json.Marshal(r.Rejected); err != nil {
				return fmt.Errorf("rejection of %s: %w", r.CommandID, err)
			}
		}
		scopes, commands = append(scopes, string(r.Scope)), append(commands, packed(r.CommandID))
		fingerprints, rejections, heads = append(fingerprints, present(r.Fingerprint)), append(rejections, rejected), append(heads, packHeads(r.Heads))
		positions, eras = append(positions, int64(r.Position)), append(eras, int32(r.Era))
		partitions, offsets, times = append(partitions, r.Partition), append(offsets, r.Offset), append(times, r.DecidedAt)
	}
	if len(scopes) == 0 {
		return nil
	}
	batch.Queue(`INSERT INTO answers (scope, command, fingerprint, rejected, heads, position, era, partition, log_offset, decided_at)
		SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::int[], $8::int[], $9::bigint[], $10::text[])
		ON CONFLICT (scope, command) DO NOTHING`,
		scopes, commands, fingerprints, rejections, heads, positions, eras, partitions, offsets, times)
	return nil
}

func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
