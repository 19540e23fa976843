package projections

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bulk is where the rows of one partition of a generation stay while it is filled.
type bulk struct {
	pool   *pgxpool.Pool
	keys   *keys
	fresh  bool // none of them is in the database
	tables map[string]stash
	order  []stash
}

// stash are the rows of one table that are not written yet, and some that are.
type stash interface {
	size() int64
	// full reports whether it gains nothing to keep more of them.
	full() bool
	// keyed reports whether flush changes rows that are there, for which the table must have its key.
	keyed() bool
	// flush writes them, and answers how many.
	flush(ctx context.Context, tx pgx.Tx, g Generation) (int64, error)
	// flushed is called when that is committed. What it keeps takes less than so many bytes.
	flushed(keep int64)
}

func newBulk(pool *pgxpool.Pool, keys *keys) *bulk {
	return &bulk{pool: pool, keys: keys, tables: map[string]stash{}}
}

func (b *bulk) size() (n int64) {
	for _, s := range b.order {
		n += s.size()
	}
	return n
}

func (b *bulk) full() bool { return slices.ContainsFunc(b.order, stash.full) }

// flush writes all rows. It needs a transaction of its own before where a table lacks its key.
func (b *bulk) flush(ctx context.Context, tx pgx.Tx, g Generation) (n int64, err error) {
	for _, s := range b.order {
		rows, err := s.flush(ctx, tx, g)
		if err != nil {
			return n, err
		}
		n += rows
	}
	return n, nil
}

func (b *bulk) keyed() bool {
	for _, s := range b.order {
		if s.keyed() {
			return true
		}
	}
	return false
}

// keys makes a generation's primary keys when they are first needed.
type keys struct {
	pool       *pgxpool.Pool
	generation Generation

	mu   sync.Mutex
	made bool
}

func (k *keys) make(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made {
		return nil
	}
	err := unhurried(ctx, k.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `SELECT FROM projection_generations WHERE projection = $1 AND generation = $2 FOR KEY SHARE`, k.generation.Projection, k.generation.Number)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrNoGeneration // dropped meanwhile
		}
		if err != nil {
			return err
		}
		return MakeKey(ctx, tx, k.generation)
	})
	if err != nil {
		return fmt.Errorf("projections: key of %s: %w", k.generation, err)
	}
	k.made = true
	return nil
}

// reading is where a batch's models read: its transaction, or the database where rows stay in memory.
func (b Batch) reading(tx pgx.Tx) querier {
	if b.bulk != nil {
		return b.bulk.pool
	}
	return tx
}

// copyRows copies rows into a table. They are encoded while they are sent.
func copyRows[R any](ctx context.Context, tx pgx.Tx, g Generation, table string, columns []Column[R], rows []*R) error {
	if len(rows) == 0 {
		return nil
	}
	names := ""
	for i, c := range columns {
		if i > 0 {
			names += ", "
		}
		names += c.name
	}
	source := &rowReader[R]{columns: columns, rows: rows, buffer: []byte(copyHeader)}
	_, err := tx.Conn().PgConn().CopyFrom(ctx, source, g.Expand("COPY {"+table+"} ("+names+") FROM STDIN BINARY"))
	if err != nil {
		return fmt.Errorf("%s: copy: %w", table, err)
	}
	return nil
}

// rowReader reads rows in the binary form of COPY.
type rowReader[R any] struct {
	columns []Column[R]
	rows    []*R
	buffer  []byte
	sent    int
	ended   bool
}

// copyPiece is how much is encoded at once.
const copyPiece = 64 << 10

// Read implements io.Reader.
func (r *rowReader[R]) Read(p []byte) (int, error) {
	if r.sent == len(r.buffer) {
		r.buffer, r.sent = r.buffer[:0], 0
	}
	for len(r.rows) > 0 && len(r.buffer) < copyPiece {
		r.buffer = appendRow(r.buffer, r.columns, r.rows[0])
		r.rows = r.rows[1:]
	}
	if len(r.rows) == 0 && !r.ended {
		r.buffer, r.ended = append(r.buffer, copyTrailer...), true
	}
	if r.sent == len(r.buffer) {
		return 0, io.EOF
	}
	n := copy(p, r.buffer[r.sent:])
	r.sent += n
	return n, nil
}

func (r *Fold[K, R]) size() int64 { return r.bytes }

func (r *Fold[K, R]) full() bool { return false }

func (r *Fold[K, R]) keyed() bool {
	for _, e := range r.changed {
		if e.stored {
			return true
		}
	}
	return false
}

// upsertPiece is how many rows are written in one statement.
const upsertPiece = 5000

func (r *Fold[K, R]) flush(ctx context.Context, tx pgx.Tx, g Generation) (int64, error) {
	var added, known, gone []*R
	for _, e := range r.changed {
		switch {
		case e.row != nil && e.stored:
			known = append(known, e.row)
		case e.row != nil:
			added = append(added, e.row)
		case e.stored:
			gone = append(gone, r.table.New(e.key))
		}
	}
	n := int64(len(added) + len(known) + len(gone))
	for _, write := range []struct {
		rows []*R
		sql  string
		args func([]*R) []any
	}{{gone, r.table.remove(), r.table.keys}, {known, r.table.upsert(), r.table.arrays}} {
		for rows := write.rows; len(rows) > 0; {
			piece := rows[:min(len(rows), upsertPiece)]
			if _, err := tx.Exec(ctx, g.Expand(write.sql), write.args(piece)...); err != nil {
				return 0, fmt.Errorf("%s: write: %w", r.table.Name, err)
			}
			rows = rows[len(piece):]
		}
	}
	return n, copyRows(ctx, tx, g, r.table.Name, r.table.Columns, added)
}

// flushed forgets what was not looked at for longest until the rest is small enough. A table that is held whole forgets
// only what is gone.
func (r *Fold[K, R]) flushed(keep int64) {
	for _, e := range r.changed {
		e.changed, e.stored = false, e.row != nil
	}
	r.changed = r.changed[:0]
	if r.scopes != nil {
		r.compact()
		return
	}
	for age := r.epoch / 2; r.bytes > keep && len(r.entries) > 0; age /= 2 {
		r.more = true
		for k, e := range r.entries {
			if e.epoch <= r.epoch-age {
				r.drop(k, e)
			}
		}
	}
}

func (r *Fold[K, R]) drop(k K, e *entry[K, R]) {
	r.bytes -= int64(e.size) + entryBytes
	delete(r.entries, k)
}

// compact forgets the places of rows that are gone and that the table never had.
func (r *Fold[K, R]) compact() {
	dead := func(e *entry[K, R]) bool { return e.row == nil && !e.stored }
	for scope, entries := range r.scopes {
		if kept := slices.DeleteFunc(entries, dead); len(kept) == 0 {
			delete(r.scopes, scope)
		} else {
			r.scopes[scope] = kept
		}
	}
	r.changed = slices.DeleteFunc(r.changed, dead)
	for k, e := range r.entries {
		if dead(e) {
			r.drop(k, e)
		}
	}
	r.gone = 0
}
