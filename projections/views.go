package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// show makes the views by which people see the live generation under the plain names of a projection's tables. A view has
// the columns of the newest generation; what an older one lacks, or has of another type, is NULL there.
func show(ctx context.Context, tx pgx.Tx, projection string) error {
	all, err := generations(ctx, tx, `WHERE p.name = $1 ORDER BY g.generation`, projection)
	if err != nil {
		return err
	}
	var tables []string
	for _, g := range all {
		tables = append(tables, g.Tables...)
	}
	slices.Sort(tables)
	for _, table := range slices.Compact(tables) {
		if err := hide(ctx, tx, table); err != nil {
			return err
		}
		if err := showTable(ctx, tx, table, all); err != nil {
			return fmt.Errorf("view %s: %w", table, err)
		}
	}
	return nil
}

func hide(ctx context.Context, tx pgx.Tx, table string) error {
	_, err := tx.Exec(ctx, `DROP VIEW IF EXISTS `+pgx.Identifier{table}.Sanitize())
	return err
}

func showTable(ctx context.Context, tx pgx.Tx, table string, all []Generation) error {
	var parts []string
	var columns []column
	slices.Reverse(all)
	defer slices.Reverse(all)
	for _, g := range all {
		if !slices.Contains(g.Tables, table) {
			continue
		}
		has, err := columnsOf(ctx, tx, g.Table(table))
		if err != nil {
			return err
		}
		if columns == nil {
			columns = has
		}
		fields := make([]string, len(columns))
		for i, c := range columns {
			name := pgx.Identifier{c.name}.Sanitize()
			fields[i] = name
			if !slices.Contains(has, c) {
				fields[i] = "NULL::" + c.kind + " AS " + name
			}
		}
		parts = append(parts, fmt.Sprintf("SELECT %s FROM %s WHERE cairn_live('%s') = %d",
			strings.Join(fields, ", "), pgx.Identifier{g.Table(table)}.Sanitize(), g.Projection, g.Number))
	}
	_, err := tx.Exec(ctx, "CREATE VIEW "+pgx.Identifier{table}.Sanitize()+" AS "+strings.Join(parts, " UNION ALL "))
	return err
}

type column struct{ name, kind string }

// columnsOf are a table's columns in their order.
func columnsOf(ctx context.Context, q querier, table string) ([]column, error) {
	rows, err := q.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod)
		FROM pg_attribute a WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.name, &c.kind)
		return c, err
	})
}
