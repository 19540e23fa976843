package projections

import (
	"fmt"
	"strings"
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
	if b.bulk == nil {
		b.Queue(t.insert(), arrays(t.Columns, rows)...)
		return
	}
	kept, ok := b.bulk.tables[t.Name].(*added[R])
	if !ok {
		kept = &added[R]{table: t}
		b.bulk.tables[t.Name] = kept
		b.bulk.order = append(b.bulk.order, kept)
	}
	for _, r := range rows {
		kept.buffer = appendRow(kept.buffer, t.Columns, r)
	}
	kept.rows += int64(len(rows))
}

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

// added are rows that wait to be copied, in the form in which they are sent.
type added[R any] struct {
	table  *Appended[R]
	buffer []byte
	rows   int64
}
