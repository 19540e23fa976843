package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Page is what the model has of a stream, or of a scope, after a cursor, all of one moment.
type Page struct {
	// Rows are the oldest ones, in order.
	Rows []streams.Recorded
	// Head is the newest version, or position, that the model has, and HeadHash that event's hash. 0: it has none.
	Head     uint64
	HeadHash []byte
	// Floor is what was pruned: see Model.Floor.
	Floor uint64
	// From is the place in the log from which on the model lacks some.
	From streams.Checkpoint
}

// Page answers at most limit events of a stream after a version, or, with an empty stream, of the scope after a position.
func (m *Model) Page(ctx context.Context, key streams.StreamKey, after uint64, limit int) (Page, error) {
	var p Page
	err := m.db.Snapshot(ctx, []string{Name}, func(ctx context.Context, tx *projections.Tx) (err error) {
		p = Page{}
		if p.From, err = projections.LiveCheckpoint(ctx, tx, Name, m.partitionOf(key.Scope), key.Scope); err != nil {
			return err
		}
		of, by, args := `scope = $1`, `position`, []any{string(key.Scope)}
		if key.Stream != "" {
			of, by, args = `scope = $1 AND stream = $2`, `version`, append(args, string(key.Stream))
		}
		var head int64
		err = tx.QueryRow(ctx, tx.Expand(Name, `SELECT `+by+`, hash FROM {events} WHERE `+of+` ORDER BY `+by+` DESC LIMIT 1`), args...).Scan(&head, &p.HeadHash)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		p.Head = uint64(head)
		var floor int64
		err = tx.QueryRow(ctx, `SELECT floor FROM event_floors WHERE generation = cairn_live('events') AND scope = $1 AND stream = $2`,
			string(key.Scope), string(key.Stream)).Scan(&floor)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		p.Floor = uint64(floor)
		if after >= p.Head || limit == 0 {
			return nil
		}
		sql := fmt.Sprintf(`SELECT %s FROM {events} WHERE %s AND %s > $%d ORDER BY %s LIMIT $%d`, fields, of, by, len(args)+1, by, len(args)+2)
		rows, err := tx.Query(ctx, tx.Expand(Name, sql), append(args, int64(after), limit)...)
		if err != nil {
			return err
		}
		p.Rows, err = pgx.CollectRows(rows, scan)
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("events: page of %s: %w", key.Scope, err)
	}
	return p, nil
}
