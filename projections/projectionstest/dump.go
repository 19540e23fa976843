package projectionstest

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Dump is the whole content of all read models at one moment.
type Dump struct {
	// Places is where each model stood, by partition, in each of its lanes.
	Places map[string]map[int32][]streams.Checkpoint
	// Stopped are the models that have stopped, and why.
	Stopped []string
	// Rows are those of each table by its primary key.
	Rows map[string]map[string]Row
}

// Row is a row: its columns in the table's order, each as text. Of long bytes it is the digest.
type Row map[string]string

// Take dumps the live generation of all read models in one snapshot.
func Take(ctx context.Context, pool *pgxpool.Pool) (*Dump, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	return TakeIn(ctx, tx)
}

// TakeIn dumps what a transaction sees.
func TakeIn(ctx context.Context, tx pgx.Tx) (*Dump, error) {
	d := &Dump{Places: map[string]map[int32][]streams.Checkpoint{}, Rows: map[string]map[string]Row{}}
	if err := d.places(ctx, tx); err != nil {
		return nil, err
	}
	for _, m := range Models(nil) {
		g, err := projections.LiveGeneration(ctx, tx, m.Projector.Name())
		if err != nil {
			return nil, fmt.Errorf("dump: %w", err)
		}
		for _, table := range m.Tables {
			if d.Rows[table], err = rows(ctx, tx, g.Table(table)); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func (d *Dump) places(ctx context.Context, tx pgx.Tx) error {
	found, err := tx.Query(ctx, `SELECT c.projection, c.partition, c.next_offset, c.era, c.lead, c.writer, c.closed, c.after_era, c.command_offset,
			coalesce(c.stopped_reason, '')
		  FROM projection_checkpoints c JOIN projections p ON p.name = c.projection AND p.generation = c.generation
		 ORDER BY c.projection, c.partition, c.lane`)
	if err != nil {
		return fmt.Errorf("dump: checkpoints: %w", err)
	}
	var model, stopped string
	var partition int32
	var at streams.Checkpoint
	a := &at.Acceptance
	_, err = pgx.ForEachRow(found, []any{&model, &partition, &at.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset, &stopped}, func() error {
		if d.Places[model] == nil {
			d.Places[model] = map[int32][]streams.Checkpoint{}
		}
		d.Places[model][partition] = append(d.Places[model][partition], at)
		if stopped != "" {
			d.Stopped = append(d.Stopped, fmt.Sprintf("%s in partition %d: %s", model, partition, stopped))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("dump: checkpoints: %w", err)
	}
	return nil
}

// longBytes is from how many bytes on a column is compared by its digest.
const longBytes = 256

// rows reads a table by its primary key, each column as text.
func rows(ctx context.Context, tx pgx.Tx, table string) (map[string]Row, error) {
	columns, key, err := shape(ctx, tx, table)
	if err != nil {
		return nil, err
	}
	var fields []string
	for _, c := range columns {
		name := pgx.Identifier{c.name}.Sanitize()
		switch {
		case c.bytes:
			fields = append(fields, fmt.Sprintf("CASE WHEN length(%[1]s) > %[2]d THEN 'md5 ' || md5(%[1]s) ELSE encode(%[1]s, 'escape') END", name, longBytes))
		default:
			fields = append(fields, name+"::text")
		}
	}
	for i, f := range fields {
		fields[i] = "coalesce(" + f + ", '<null>')"
	}
	found, err := tx.Query(ctx, "SELECT ARRAY["+strings.Join(fields, ", ")+"] FROM "+pgx.Identifier{table}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("dump: %s: %w", table, err)
	}
	all := map[string]Row{}
	var values []string
	_, err = pgx.ForEachRow(found, []any{&values}, func() error {
		row, id := make(Row, len(columns)), []string{}
		for i, c := range columns {
			row[c.name] = values[i]
			if key[c.name] {
				id = append(id, values[i])
			}
		}
		all[strings.Join(id, " ")] = row
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("dump: %s: %w", table, err)
	}
	return all, nil
}

type column struct {
	name  string
	bytes bool
}

// shape is a table's columns, and which of them are its primary key.
func shape(ctx context.Context, tx pgx.Tx, table string) ([]column, map[string]bool, error) {
	found, err := tx.Query(ctx, `SELECT a.attname, a.atttypid = 'bytea'::regtype,
			EXISTS (SELECT 1 FROM pg_index x WHERE x.indrelid = a.attrelid AND x.indisprimary AND a.attnum = ANY (x.indkey))
		  FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, table)
	if err != nil {
		return nil, nil, fmt.Errorf("dump: columns of %s: %w", table, err)
	}
	var columns []column
	key := map[string]bool{}
	var c column
	var inKey bool
	_, err = pgx.ForEachRow(found, []any{&c.name, &c.bytes, &inKey}, func() error {
		columns = append(columns, c)
		if inKey {
			key[c.name] = true
		}
		return nil
	})
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("it has no primary key")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("dump: columns of %s: %w", table, err)
	}
	return columns, key, nil
}
