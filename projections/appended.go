package projections

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Appended is a table of a read model that has a row for every event: rows are added, and never change.
type Appended[R any] struct {
	Name    string // as SQL has it in braces
	Columns []Column[R]
}

// Add writes rows with the batch.
func (t *Appended[R]) Add(b Batch, rows []*R) {
	if len(rows) == 0 {
		return
	}
	b.Touch()
	switch {
	case b.bulk != nil:
	case len(rows) < copyFrom:
		b.Queue(t.insert(), arrays(t.Columns, rows)...)
		return
	default:
		b.writes.copies = append(b.writes.copies, func(ctx context.Context, tx pgx.Tx) error {
			return copyRows(ctx, tx, b.Generation, t.Name, t.Columns, rows)
		})
		return
	}
	kept, ok := b.bulk.tables[t.Name].(*added[R])
	if !ok {
		kept = &added[R]{table: t}
		b.bulk.tables[t.Name] = kept
		b.bulk.order = append(b.bulk.order, kept)
	}
	for _, r := range rows {
		kept.add(r)
	}
}

// copyFrom is from how many rows on they are copied: it costs a trip to the server of its own, and much less for each row.
const copyFrom = 200

// Filling reports whether the batch is one of many that fill a table from the beginning: it has no key and no index meanwhile.
func (b Batch) Filling() bool { return b.bulk != nil }

func (t *Appended[R]) names() string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func (t *Appended[R]) insert() string {
	casts := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		casts[i] = fmt.Sprintf("$%d::%s[]", i+1, c.sort)
	}
	return "INSERT INTO {" + t.Name + "} (" + t.names() + ") SELECT * FROM unnest(" + strings.Join(casts, ", ") + ")"
}

func (t *Appended[R]) copy() string {
	return "COPY {" + t.Name + "} (" + t.names() + ") FROM STDIN BINARY"
}

// added are rows that wait to be copied, in the form in which they are sent. They lie in slabs that are used again.
type added[R any] struct {
	table *Appended[R]
	slabs [][]byte
	used  int // slabs with rows
	bytes int64
	rows  int64
}

// slab is how large one is: a row more than that is not copied again and again while a buffer grows.
const slab = 1 << 20

// enough is how much is copied at once. More would gain nothing: rows that are added are never looked at again.
const enough = 16 << 20

func (a *added[R]) add(r *R) {
	if a.used == 0 || len(a.slabs[a.used-1]) > slab-slab/8 {
		if a.used++; a.used > len(a.slabs) {
			a.slabs = append(a.slabs, make([]byte, 0, slab))
		}
	}
	last := &a.slabs[a.used-1]
	before := len(*last)
	*last = appendRow(*last, a.table.Columns, r)
	a.bytes += int64(len(*last) - before)
	a.rows++
}

func (a *added[R]) size() int64 { return a.bytes }

func (a *added[R]) full() bool { return a.bytes > enough }

func (a *added[R]) keyed() bool { return false }

func (a *added[R]) flush(ctx context.Context, tx pgx.Tx, g Generation) (int64, error) {
	if a.rows == 0 {
		return 0, nil
	}
	parts := []io.Reader{strings.NewReader(copyHeader)}
	for _, s := range a.slabs[:a.used] {
		parts = append(parts, bytes.NewReader(s))
	}
	source := io.MultiReader(append(parts, strings.NewReader(copyTrailer))...)
	if _, err := tx.Conn().PgConn().CopyFrom(ctx, source, g.Expand(a.table.copy())); err != nil {
		return 0, fmt.Errorf("%s: copy: %w", a.table.Name, err)
	}
	return a.rows, nil
}

func (a *added[R]) flushed(int64) {
	for i := range a.slabs {
		a.slabs[i] = a.slabs[i][:0]
	}
	a.used, a.bytes, a.rows = 0, 0, 0
}
