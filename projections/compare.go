package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// compare holds the tables of two generations against each other, in one snapshot.
func (v *Verdict) compare(ctx context.Context, tx pgx.Tx, live, other Generation, show int) error {
	newer := other
	if live.Revision > other.Revision {
		newer = live
	}
	s, err := parseShape(newer.Projection, newer.shape)
	if err != nil {
		return err
	}
	changed := s.changed
	if live.Revision == other.Revision {
		changed = nil // what it says is about the revision before
	}
	for _, table := range live.Tables {
		if !slices.Contains(other.Tables, table) {
			v.OnlyIn = append(v.OnlyIn, table)
			continue
		}
		c, err := comparisonOf(ctx, tx, live.Table(table), other.Table(table), changed)
		if err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		found, err := c.run(ctx, tx, show)
		if err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		found.Table = table
		v.Tables = append(v.Tables, found)
		v.Differences += found.Differences
	}
	for _, table := range other.Tables {
		if !slices.Contains(live.Tables, table) {
			v.OnlyIn = append(v.OnlyIn, table)
		}
	}
	return nil
}

// comparison is of two tables by their primary key.
type comparison struct {
	live, other string   // the tables, sanitized
	key         []string // columns, as all that follow
	rest        []string
	leftOut     []string
	kinds       map[string]string
}

func comparisonOf(ctx context.Context, q querier, live, other string, changed []string) (comparison, error) {
	c := comparison{live: pgx.Identifier{live}.Sanitize(), other: pgx.Identifier{other}.Sanitize(), kinds: map[string]string{}}
	mine, err := columnsOf(ctx, q, live)
	if err != nil {
		return c, err
	}
	theirs, err := columnsOf(ctx, q, other)
	if err != nil {
		return c, err
	}
	rows, err := q.Query(ctx, `SELECT a.attname FROM pg_index x JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey)
		WHERE x.indrelid = $1::text::regclass AND x.indisprimary ORDER BY array_position(x.indkey::int2[], a.attnum)`, other)
	if err != nil {
		return c, err
	}
	if c.key, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return c, err
	}
	if len(c.key) == 0 {
		return c, fmt.Errorf("it has no primary key")
	}
	for _, at := range theirs {
		c.kinds[at.name] = at.kind
		switch shared := slices.Contains(mine, at) && !slices.Contains(changed, at.name); {
		case shared && !slices.Contains(c.key, at.name):
			c.rest = append(c.rest, at.name)
		case !shared && slices.Contains(c.key, at.name):
			return c, fmt.Errorf("column %s of its primary key can't be compared: swap it unverified if it has to be", at.name)
		case !shared:
			c.leftOut = append(c.leftOut, at.name)
		}
	}
	for _, at := range mine {
		if !slices.Contains(theirs, at) {
			c.leftOut = append(c.leftOut, at.name)
		}
	}
	slices.Sort(c.leftOut)
	c.leftOut = slices.Compact(c.leftOut)
	return c, nil
}

// value is a column as something that can be compared and hashed.
func (c comparison) value(of, column string) string {
	field := pgx.Identifier{of, column}.Sanitize()
	if of == "" {
		field = pgx.Identifier{column}.Sanitize()
	}
	if slices.Contains([]string{"json", "xml", "point"}, c.kinds[column]) {
		return field + "::text" // they have no order and no hash
	}
	return field
}

// sum is a number for a whole row, with which the numbers of all rows add up.
func (c comparison) sum() string {
	fields := []string{"'cairn'::text"} // a row of one column is no row for Postgres' parser
	for _, column := range append(slices.Clone(c.key), c.rest...) {
		fields = append(fields, c.value("", column))
	}
	return "hash_record_extended(ROW(" + strings.Join(fields, ", ") + "), 0)"
}

// run counts first, and sums up; only where that differs it goes from key to key.
func (c comparison) run(ctx context.Context, tx pgx.Tx, show int) (TableVerdict, error) {
	t := TableVerdict{LeftOut: c.leftOut}
	var equal bool
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT a.n, b.n, a.n = b.n AND a.total = b.total
		FROM (SELECT count(*) AS n, coalesce(sum(%[1]s::numeric), 0) AS total FROM %[2]s) a,
		     (SELECT count(*) AS n, coalesce(sum(%[1]s::numeric), 0) AS total FROM %[3]s) b`, c.sum(), c.live, c.other)).
		Scan(&t.Rows, &t.OtherRows, &equal)
	if err != nil || equal {
		return t, err
	}
	if err := tx.QueryRow(ctx, "SELECT count(*)"+c.differing()).Scan(&t.Differences); err != nil {
		return t, err
	}
	if t.Differences == 0 {
		return t, errors.New("the sums of all rows differ, and no row does")
	}
	t.Shown, err = c.show(ctx, tx, show)
	return t, err
}

// differing are the pairs of rows, by key, that are not equal.
func (c comparison) differing() string {
	var on, unequal []string
	for _, column := range c.key {
		on = append(on, c.value("a", column)+" = "+c.value("b", column))
	}
	first := pgx.Identifier{c.key[0]}.Sanitize()
	unequal = append(unequal, "a."+first+" IS NULL", "b."+first+" IS NULL")
	for _, column := range c.rest {
		unequal = append(unequal, c.value("a", column)+" IS DISTINCT FROM "+c.value("b", column))
	}
	return " FROM " + c.live + " a FULL JOIN " + c.other + " b ON " + strings.Join(on, " AND ") + " WHERE " + strings.Join(unequal, " OR ")
}

func (c comparison) show(ctx context.Context, tx pgx.Tx, show int) ([]Difference, error) {
	var keys, order, names []string
	for i, column := range c.key {
		keys = append(keys, "coalesce("+c.value("a", column)+"::text, "+c.value("b", column)+"::text)")
		order = append(order, fmt.Sprint(i+4))
	}
	for _, column := range c.rest {
		names = append(names, fmt.Sprintf("CASE WHEN %s IS DISTINCT FROM %s THEN '%s' END", c.value("a", column), c.value("b", column), strings.ReplaceAll(column, "'", "''")))
	}
	if len(names) == 0 {
		names = []string{"NULL::text"}
	}
	first := pgx.Identifier{c.key[0]}.Sanitize()
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT a.%[1]s IS NULL, b.%[1]s IS NULL, array_remove(ARRAY[%[2]s], NULL), %[3]s%[4]s ORDER BY %[5]s LIMIT %[6]d",
		first, strings.Join(names, ", "), strings.Join(keys, ", "), c.differing(), strings.Join(order, ", "), show))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Difference, error) {
		d := Difference{Key: make(map[string]string, len(c.key))}
		var missing, lost bool
		values := make([]string, len(c.key))
		targets := []any{&missing, &lost, &d.Columns}
		for i := range values {
			targets = append(targets, &values[i])
		}
		err := row.Scan(targets...)
		for i, column := range c.key {
			d.Key[column] = values[i]
		}
		switch {
		case missing:
			d.Only, d.Columns = "other", nil
		case lost:
			d.Only, d.Columns = "live", nil
		}
		return d, err
	})
}
