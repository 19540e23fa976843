package projections

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Mirror gives another database, empty but for its schema, the tables of the generations that are here, before rows are
// copied into it.
func Mirror(ctx context.Context, from Querier, to pgx.Tx) error {
	here, err := Generations(ctx, from)
	if err != nil {
		return err
	}
	there, err := Generations(ctx, to)
	if err != nil {
		return err
	}
	has := func(all []Generation, g Generation) bool {
		return slices.ContainsFunc(all, func(o Generation) bool { return o.Projection == g.Projection && o.Number == g.Number })
	}
	for _, g := range there {
		if !has(here, g) {
			if err := g.remove(ctx, to); err != nil {
				return fmt.Errorf("projections: mirror: %w", err)
			}
		}
	}
	for _, g := range here {
		if has(there, g) {
			continue
		}
		s, err := parseShape(g.Projection, g.shape)
		if err != nil {
			return err
		}
		statements := []string{s.tables, s.key}
		if g.State == Feeding {
			statements = append(statements, s.indexes)
		}
		if err := g.make(ctx, to, statements...); err != nil {
			return fmt.Errorf("projections: mirror: %w", err)
		}
	}
	return nil
}

// Show makes the views of all projections anew, after the registry was copied.
func Show(ctx context.Context, tx pgx.Tx) error {
	all, err := Generations(ctx, tx)
	if err != nil {
		return err
	}
	for _, name := range slices.Compact(projectionsOf(all)) {
		if err := show(ctx, tx, name); err != nil {
			return fmt.Errorf("projections: show: %w", err)
		}
	}
	return nil
}

func projectionsOf(all []Generation) []string {
	names := make([]string, len(all))
	for i, g := range all {
		names[i] = g.Projection
	}
	slices.Sort(names)
	return names
}
