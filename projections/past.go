package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Past is what read models held after a part of the history: folded in memory, from the first event on, by the code that
// fills their tables, and stored nowhere.
type Past struct {
	schema *codec.Schema
	models []pastModel
	kinds  kinds // of streams at which a model looks
	rows   *bulk
}

type pastModel struct {
	Filler
	skips map[string]bool
}

// NewPast is a past without events. What an operator made a projector step over, it steps over here too.
func NewPast(ctx context.Context, db *DB, schema *codec.Schema, models ...Projector) (*Past, error) {
	p := &Past{schema: schema, rows: newBulk(nil, nil), kinds: kindsOf(models)}
	p.rows.fresh = true // there are no rows elsewhere, so that nothing is ever read
	for _, m := range models {
		filler, ok := m.(Filler)
		if !ok {
			return nil, fmt.Errorf("projections: %s is not folded in memory", m.Name())
		}
		p.models = append(p.models, pastModel{Filler: filler, skips: map[string]bool{}})
	}
	found, err := db.Pool().Query(ctx, `SELECT projection, event_id FROM projection_skips`)
	if err != nil {
		return nil, fmt.Errorf("projections: past: %w", err)
	}
	var name, event string
	_, err = pgx.ForEachRow(found, []any{&name, &event}, func() error {
		for _, m := range p.models {
			if m.Name() == name {
				m.skips[event] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("projections: past: %w", err)
	}
	return p, nil
}

// Apply folds the next events, in their order.
func (p *Past) Apply(ctx context.Context, events []streams.Recorded) error {
	batch := newBatch(p.schema, decode(p.schema, streams.Batch{Commits: []streams.Commit{{Events: events}}}, p.kinds))
	for _, m := range p.models {
		mine := batch.For(Generation{Projection: m.Name(), Revision: m.Revision()})
		mine.skips, mine.bulk = m.skips, p.rows
		if err := m.Apply(ctx, nil, mine); err != nil {
			return fmt.Errorf("projections: past of %s: %w", m.Name(), err)
		}
	}
	return nil
}

// Kept are the rows that a past has in a table, in no order. The types are those of the table.
func Kept[K comparable, R any](p *Past, table string) []*R {
	fold, ok := p.rows.tables[table].(*Fold[K, R])
	if !ok {
		return nil // no event of it yet
	}
	var rows []*R
	for _, e := range fold.entries {
		if e.row != nil {
			rows = append(rows, e.row)
		}
	}
	return rows
}
