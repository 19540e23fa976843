package projections

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// registryLock keeps changes of the registry apart: "creg".
const registryLock = 0x63726567

// register changes the registry in one transaction, alone.
func register(ctx context.Context, pool *pgxpool.Pool, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, registryLock); err != nil {
			return err
		}
		return do(tx)
	})
}

// Ensure makes the first generation of every projection that has none, empty and live, in the newest revision that is
// compiled in. It replaces one of another revision that was never fed, as a fresh database has it. Whoever feeds calls it
// first.
func Ensure(ctx context.Context, pool *pgxpool.Pool, projectors []Projector, lanes int) error {
	err := register(ctx, pool, func(tx pgx.Tx) error {
		all, err := Generations(ctx, tx)
		if err != nil {
			return err
		}
		for _, p := range newest(projectors) {
			if err := ensure(ctx, tx, Of(all, p.Name()), p, lanes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("projections: first generations: %w", err)
	}
	return nil
}

// newest are the projectors of the newest revisions, one a name.
func newest(projectors []Projector) []Projector {
	var found []Projector
	for _, p := range projectors {
		i := slices.IndexFunc(found, func(q Projector) bool { return q.Name() == p.Name() })
		switch {
		case i < 0:
			found = append(found, p)
		case found[i].Revision() < p.Revision():
			found[i] = p
		}
	}
	return found
}

func ensure(ctx context.Context, tx pgx.Tx, has []Generation, p Projector, lanes int) error {
	if len(has) > 1 || len(has) == 1 && has[0].Revision == p.Revision() && has[0].Lanes == lanes {
		return nil
	}
	if len(has) == 1 {
		// The row's lock keeps a process away that would begin to feed it: whoever places the first checkpoint shares it.
		var fed bool
		if _, err := tx.Exec(ctx, `SELECT FROM projection_generations WHERE projection = $1 FOR UPDATE`, p.Name()); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projection_checkpoints WHERE projection = $1)`, p.Name()).Scan(&fed); err != nil || fed {
			return err
		}
		if has[0].Revision == p.Revision() {
			_, err := tx.Exec(ctx, `UPDATE projection_generations SET lanes = $2 WHERE projection = $1`, p.Name(), lanes)
			return err
		}
		if has[0].Revision > p.Revision() {
			return nil
		}
	}
	g, s, err := create(ctx, tx, p, lanes)
	if err == nil {
		err = g.make(ctx, tx, s.key, s.indexes)
	}
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE projections SET generation = $2, swapped_at = cairn_now() WHERE name = $1`, g.Projection, g.Number)
	batch.Queue(`UPDATE projection_generations SET state = 'feeding', filled_at = cairn_now() WHERE projection = $1 AND generation = $2`, g.Projection, g.Number)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for _, unfed := range has {
		if err := unfed.remove(ctx, tx); err != nil {
			return err
		}
	}
	if len(has) > 0 {
		return nil // shown by the removal
	}
	return show(ctx, tx, g.Projection)
}

// CreateGeneration makes the next generation of a projection, in the projector's revision, empty and without keys.
func CreateGeneration(ctx context.Context, pool *pgxpool.Pool, p Projector) (g Generation, err error) {
	err = register(ctx, pool, func(tx pgx.Tx) error {
		live, err := LiveGeneration(ctx, tx, p.Name())
		if err != nil {
			return err
		}
		if g, _, err = create(ctx, tx, p, live.Lanes); err != nil {
			return err
		}
		return show(ctx, tx, g.Projection)
	})
	if err != nil {
		return g, fmt.Errorf("projections: next generation of %s: %w", p.Name(), err)
	}
	return g, nil
}

func create(ctx context.Context, tx pgx.Tx, p Projector, lanes int) (Generation, shape, error) {
	text, err := shapeText(p)
	if err != nil {
		return Generation{}, shape{}, err
	}
	s, err := parseShape(p.Name(), text)
	if err != nil {
		return Generation{}, s, err
	}
	g := Generation{Projection: p.Name(), Revision: p.Revision(), Lanes: max(lanes, 1), State: Filling, Tables: s.names, shape: text}
	err = tx.QueryRow(ctx, `INSERT INTO projections AS p (name, generation) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET newest = p.newest + 1 RETURNING newest`, g.Projection).Scan(&g.Number)
	if err != nil {
		return g, s, err
	}
	err = tx.QueryRow(ctx, `INSERT INTO projection_generations (projection, generation, revision, lanes, tables, shape, state, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, cairn_now()) RETURNING created_at`,
		g.Projection, g.Number, g.Revision, g.Lanes, g.Tables, g.shape, g.State).Scan(&g.CreatedAt)
	if err != nil {
		return g, s, err
	}
	g.CreatedAt = g.CreatedAt.UTC()
	return g, s, g.make(ctx, tx, s.tables)
}

// make runs statements on its tables.
func (g Generation) make(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, sql := range statements {
		// Without arguments the simple protocol takes several statements at once.
		if _, err := tx.Conn().PgConn().Exec(ctx, g.Expand(sql)).ReadAll(); err != nil {
			return fmt.Errorf("tables of %s: %w", g, err)
		}
	}
	return nil
}

// remove deletes it with its tables, and shows what is left. First the checkpoints: whoever feeds it takes their locks before
// those of the tables.
func (g Generation) remove(ctx context.Context, tx pgx.Tx) error {
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM projection_checkpoints WHERE projection = $1 AND generation = $2`, g.Projection, g.Number)
	batch.Queue(`DELETE FROM projection_generations WHERE projection = $1 AND generation = $2`, g.Projection, g.Number)
	batch.Queue(`UPDATE projections SET previous = NULL WHERE name = $1 AND previous = $2`, g.Projection, g.Number)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for _, table := range g.Tables {
		if err := hide(ctx, tx, table); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{g.Table(table)}.Sanitize()); err != nil {
			return err
		}
	}
	return show(ctx, tx, g.Projection)
}

// MakeKey makes the primary keys of a generation's tables, unless they are there: what upserts need.
func MakeKey(ctx context.Context, tx pgx.Tx, g Generation) error {
	if len(g.Tables) == 0 {
		return nil
	}
	s, err := parseShape(g.Projection, g.shape)
	if err != nil {
		return err
	}
	var keyed bool
	names := make([]string, len(g.Tables))
	for i, table := range g.Tables {
		names[i] = g.Table(table)
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index x WHERE x.indisprimary AND x.indrelid = ANY (SELECT n::regclass FROM unnest($1::text[]) AS n))`, names).Scan(&keyed)
	if err != nil || keyed {
		return err
	}
	return g.make(ctx, tx, s.key)
}

// BuildIndexes makes a filled generation's keys and indexes, all at once, and has it fed from then on.
func BuildIndexes(ctx context.Context, pool *pgxpool.Pool, g Generation) error {
	err := unhurried(ctx, pool, func(tx pgx.Tx) error { return buildIndexes(ctx, tx, g) })
	if err != nil {
		return fmt.Errorf("projections: indexes of %s: %w", g, err)
	}
	return nil
}

func buildIndexes(ctx context.Context, tx pgx.Tx, g Generation) error {
	var state string
	err := tx.QueryRow(ctx, `SELECT state FROM projection_generations WHERE projection = $1 AND generation = $2 FOR UPDATE`,
		g.Projection, g.Number).Scan(&state)
	if err != nil || state == Feeding {
		return err
	}
	if _, err := tx.Exec(ctx, `SET LOCAL maintenance_work_mem = '256MB'`); err != nil { // sorted in memory, not on disk
		return err
	}
	if err := MakeKey(ctx, tx, g); err != nil {
		return err
	}
	s, err := parseShape(g.Projection, g.shape)
	if err != nil {
		return err
	}
	if err := g.make(ctx, tx, s.indexes); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE projection_generations SET state = 'feeding', filled_at = cairn_now() WHERE projection = $1 AND generation = $2`,
		g.Projection, g.Number)
	return err
}
