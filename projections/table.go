package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Table is a table of a read model whose rows are folds: what a batch concerns is read in one statement, changed in memory,
// and written once. The same fold serves the live path and the bulk path, where rows stay in memory over many batches.
type Table[K comparable, R any] struct {
	Name    string      // as SQL has it in braces
	Columns []Column[R] // the first Keys of them are the primary key
	Keys    int
	New     func(K) *R // a row that is not there yet
	Key     func(*R) K // the inverse
	Scan    pgx.RowToFunc[*R]
	// Size is about how many bytes a row takes in memory. Nil: 256.
	Size func(*R) int
	// Scope is for tables of which rows are found by other things than their key: rows of a scope can be walked with Fold.In.
	// The bulk path holds such a table whole, so it must be one that stays small. Nil: rows are found by their key alone.
	Scope func(K) string
}

// Fold are the rows of a table that a batch concerns.
type Fold[K comparable, R any] struct {
	table   *Table[K, R]
	entries map[K]*entry[K, R]
	changed []*entry[K, R]
	wanted  []K
	scopes  map[string][]*entry[K, R]

	// On the bulk path:
	bulk  bool
	more  bool // the table may hold rows that are not here
	bytes int64
	epoch int
	gone  int // rows taken away that the table never had
}

type entry[K comparable, R any] struct {
	key     K
	row     *R // nil: there is none
	stored  bool
	changed bool
	size    int
	epoch   int // in which it was last looked at
}

// Open is where a batch's rows are kept: empty, or what earlier batches left there.
func (t *Table[K, R]) Open(b Batch) *Fold[K, R] {
	if b.bulk == nil {
		return newFold(t)
	}
	if kept, ok := b.bulk.tables[t.Name].(*Fold[K, R]); ok {
		kept.epoch++
		return kept
	}
	rows := newFold(t)
	rows.bulk, rows.more = true, !b.bulk.fresh
	b.bulk.tables[t.Name] = rows
	b.bulk.order = append(b.bulk.order, rows)
	return rows
}

func newFold[K comparable, R any](t *Table[K, R]) *Fold[K, R] {
	r := &Fold[K, R]{table: t, entries: map[K]*entry[K, R]{}}
	if t.Scope != nil {
		r.scopes = map[string][]*entry[K, R]{}
	}
	return r
}

func (r *Fold[K, R]) entry(k K) *entry[K, R] {
	e := r.entries[k]
	if e == nil {
		e = &entry[K, R]{key: k}
		r.entries[k] = e
		if r.scopes != nil {
			scope := r.table.Scope(k)
			r.scopes[scope] = append(r.scopes[scope], e)
		}
		r.bytes += entryBytes
	}
	e.epoch = r.epoch
	return e
}

// garbage is how many places of rows that are gone are kept at most.
const garbage = 4096

// entryBytes is about what a place in the map takes beside its row.
const entryBytes = 160

// Want says that the batch concerns a row.
func (r *Fold[K, R]) Want(k K) {
	if e, ok := r.entries[k]; ok {
		e.epoch = r.epoch
		return
	}
	r.entry(k)
	r.wanted = append(r.wanted, k)
}

// Load reads the wanted rows that are not here.
func (r *Fold[K, R]) Load(ctx context.Context, tx pgx.Tx, b Batch) error {
	wanted := r.wanted
	r.wanted = nil
	if len(wanted) == 0 || r.bulk && !r.more {
		return nil
	}
	if r.bulk {
		if err := b.bulk.keys.make(ctx); err != nil {
			return err
		}
	}
	fresh := make([]*R, len(wanted))
	for i, k := range wanted {
		fresh[i] = r.table.New(k)
	}
	if err := r.read(ctx, b.reading(tx), b.Expand(r.table.load()), r.table.keys(fresh)...); err != nil {
		return fmt.Errorf("%s: load: %w", r.table.Name, err)
	}
	return nil
}

// Find reads the rows r of the table that meet any of some joins, to be walked with In or looked at by their keys then.
func (r *Fold[K, R]) Find(ctx context.Context, tx pgx.Tx, b Batch, joins []string, args ...any) error {
	if r.bulk && !r.more {
		return nil
	}
	parts := make([]string, len(joins))
	for i, join := range joins {
		parts[i] = "SELECT " + r.table.names("r.") + " FROM {" + r.table.Name + "} r " + join
	}
	if r.bulk { // all of it, once: from here on it is held whole
		r.more = false
		parts, args = []string{"SELECT " + r.table.names("r.") + " FROM {" + r.table.Name + "} r"}, nil
	}
	if err := r.read(ctx, b.reading(tx), b.Expand(strings.Join(parts, "\nUNION ALL ")), args...); err != nil {
		return fmt.Errorf("%s: find: %w", r.table.Name, err)
	}
	return nil
}

func (r *Fold[K, R]) read(ctx context.Context, q querier, sql string, args ...any) error {
	found, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	rows, err := pgx.CollectRows(found, r.table.Scan)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if e := r.entry(r.table.Key(row)); !e.changed {
			e.row, e.stored = row, true
			r.weigh(e)
		}
	}
	return nil
}

// weigh counts what an entry's row takes.
func (r *Fold[K, R]) weigh(e *entry[K, R]) {
	if !r.bulk {
		return
	}
	size := 0
	if e.row != nil {
		size = 256
		if r.table.Size != nil {
			size = r.table.Size(e.row)
		}
	}
	r.bytes += int64(size - e.size)
	e.size = size
}

// At is a row to change, a new one where there is none.
func (r *Fold[K, R]) At(k K) *R {
	e := r.entry(k)
	if e.row == nil {
		e.row = r.table.New(k)
	}
	r.change(e)
	return e.row
}

// Get is a row to look at; nil: there is none.
func (r *Fold[K, R]) Get(k K) *R { return r.entry(k).row }

// Put replaces a row.
func (r *Fold[K, R]) Put(row *R) {
	e := r.entry(r.table.Key(row))
	e.row = row
	r.change(e)
}

// Delete takes a row away.
func (r *Fold[K, R]) Delete(k K) {
	if e := r.entry(k); e.row != nil {
		e.row = nil
		r.change(e)
		if !e.stored {
			r.gone++
		}
	}
}

func (r *Fold[K, R]) change(e *entry[K, R]) {
	if !e.changed {
		e.changed = true
		r.changed = append(r.changed, e)
	}
}

// In walks the rows of a scope; it may change and delete them meanwhile.
func (r *Fold[K, R]) In(scope string, each func(K, *R)) {
	for _, e := range r.scopes[scope] {
		if e.row != nil {
			each(e.key, e.row)
		}
	}
}

// Store writes what changed, with the batch.
func (r *Fold[K, R]) Store(b Batch) {
	if len(r.changed) == 0 {
		return
	}
	b.Touch()
	if r.bulk {
		for _, e := range r.changed {
			r.weigh(e)
		}
		if r.scopes != nil && r.gone > garbage {
			r.compact()
		}
		return // Fill writes them when it is time
	}
	upserts, deletes := r.split(r.changed)
	if len(deletes) > 0 {
		b.Queue(r.table.remove(), r.table.keys(deletes)...)
	}
	if len(upserts) > 0 {
		b.Queue(r.table.upsert(), r.table.arrays(upserts)...)
	}
}

// split are the rows to write, and rows with the keys of those to take away.
func (r *Fold[K, R]) split(changed []*entry[K, R]) (upserts, deletes []*R) {
	for _, e := range changed {
		switch {
		case e.row != nil:
			upserts = append(upserts, e.row)
		case e.stored:
			deletes = append(deletes, r.table.New(e.key))
		}
	}
	return upserts, deletes
}

func (t *Table[K, R]) names(of string) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = of + c.name
	}
	return strings.Join(names, ", ")
}

// unnest is the arrays of the first n columns as rows.
func (t *Table[K, R]) unnest(n int) string {
	casts := make([]string, n)
	for i, c := range t.Columns[:n] {
		casts[i] = fmt.Sprintf("$%d::%s[]", i+1, c.sort)
	}
	return "unnest(" + strings.Join(casts, ", ") + ")"
}

// keyNames are the names of the primary key's columns.
func (t *Table[K, R]) keyNames() []string {
	names := make([]string, t.Keys)
	for i, c := range t.Columns[:t.Keys] {
		names[i] = c.name
	}
	return names
}

// meets is the condition that a row r has the key k.
func (t *Table[K, R]) meets() string {
	names := t.keyNames()
	for i, name := range names {
		names[i] = "r." + name + " = k." + name
	}
	return strings.Join(names, " AND ")
}

func (t *Table[K, R]) load() string {
	return "SELECT " + t.names("t.") + " FROM " + t.unnest(t.Keys) + " AS k (" + strings.Join(t.keyNames(), ", ") + "),\n" +
		"\tLATERAL (SELECT * FROM {" + t.Name + "} r WHERE " + t.meets() + ") t"
}

func (t *Table[K, R]) upsert() string {
	var set []string
	for _, c := range t.Columns[t.Keys:] {
		set = append(set, c.name+" = EXCLUDED."+c.name)
	}
	return "INSERT INTO {" + t.Name + "} (" + t.names("") + ") SELECT * FROM " + t.unnest(len(t.Columns)) +
		"\n\tON CONFLICT (" + strings.Join(t.keyNames(), ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}

func (t *Table[K, R]) remove() string {
	return "DELETE FROM {" + t.Name + "} r USING " + t.unnest(t.Keys) + " AS k (" + strings.Join(t.keyNames(), ", ") + ") WHERE " + t.meets()
}

func (t *Table[K, R]) arrays(rows []*R) []any { return arrays(t.Columns, rows) }

func (t *Table[K, R]) keys(rows []*R) []any { return arrays(t.Columns[:t.Keys], rows) }

func arrays[R any](columns []Column[R], rows []*R) []any {
	all := make([]any, len(columns))
	for i := range columns {
		all[i] = columns[i].array(rows)
	}
	return all
}
