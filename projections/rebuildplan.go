package projections

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lineage is what the registry says of one read model.
type lineage struct {
	live        Generation
	generations []Generation // ascending
}

// lineages are those of all read models, in one snapshot.
func lineages(ctx context.Context, q querier) (map[string]lineage, error) {
	all, err := Generations(ctx, q)
	if err != nil {
		return nil, err
	}
	found := map[string]lineage{}
	for _, g := range all {
		s := found[g.Projection]
		if s.generations = append(s.generations, g); g.Live {
			s.live = g
		}
		found[g.Projection] = s
	}
	return found, nil
}

// next is the generation that is to be read after the live one: one that a rebuild has begun, and that was not read before.
func (s lineage) next() (Generation, bool) {
	if len(s.generations) == 0 {
		return Generation{}, false
	}
	g := s.generations[len(s.generations)-1]
	return g, g.Number > s.live.Number && !g.Previous
}

// differed reports whether a generation was found to be wrong.
func differed(g Generation) bool {
	var v Verdict
	return len(g.Verdict) > 0 && json.Unmarshal(g.Verdict, &v) == nil && !v.Clean()
}

// plan takes up what is there, or begins.
func (r *rebuild) plan(ctx context.Context) error {
	found, err := lineages(ctx, r.Pool)
	if err != nil {
		return err
	}
	var begin []*task
	for _, name := range r.Names {
		s, exists := found[name]
		projector, compiled := newestOf(r.Projectors, name)
		if !exists || !compiled {
			return fmt.Errorf("projections: there is no read model %q: there are %v", name, Names(r.Projectors))
		}
		if r.onlyNewer && s.live.Revision >= projector.Revision() {
			continue
		}
		t := &task{projector: projector, live: s.live.Number, swap: cmp.Or(r.Swap, SwapAuto)}
		r.tasks = append(r.tasks, t)
		g, unfinished := s.next()
		switch {
		case !unfinished:
			begin = append(begin, t)
			continue
		case g.State == Feeding && differed(g):
			return fmt.Errorf("projections: generation %d of %s: %w: look at `cairn projections verify %s`, and drop it with `cairn projections drop %s %d`",
				g.Number, name, ErrDiffers, name, name, g.Number)
		case g.Revision > projector.Revision():
			return fmt.Errorf("projections: a newer release began generation %d of %s: let it go on there, or drop it with `cairn projections drop %s %d`",
				g.Number, name, name, g.Number)
		case g.Revision < projector.Revision():
			// Nobody would read it: this release has a newer one.
			if err := Drop(ctx, r.Pool, name, g.Number); err != nil {
				return err
			}
			begin = append(begin, t)
			continue
		}
		t.generation, t.takenUp = g, true
		if r.Swap == "" {
			t.swap, err = swapMode(ctx, r.Pool, g)
		} else {
			err = noteBegun(ctx, r.Pool, g, r.Swap, r.By) // who takes it up after us does what we were told
		}
		if err != nil {
			return err
		}
		r.Log.Info("a rebuild goes on", "projection", name, "generation", g.Number, "state", g.State)
	}
	return r.begin(ctx, begin)
}

// begin makes the new generations, if there is room for all of them.
func (r *rebuild) begin(ctx context.Context, tasks []*task) error {
	if err := r.room(ctx, tasks); err != nil {
		return err
	}
	for _, t := range tasks {
		g, err := CreateGeneration(ctx, r.Pool, t.projector)
		if err != nil {
			return err
		}
		t.generation = g
		if err := noteBegun(ctx, r.Pool, g, t.swap, r.By); err != nil {
			return err
		}
		r.Log.Info("a rebuild begins", "projection", g.Projection, "generation", g.Number, "revision", g.Revision)
	}
	return nil
}

// NoRoom says that the disk may be full before the rebuild is done.
type NoRoom struct{ Needed, Free uint64 }

// Error says how much is missing.
func (n *NoRoom) Error() string {
	return fmt.Sprintf("rebuilding takes up to %d MiB, and %d MiB are free", n.Needed>>20, n.Free>>20)
}

// room compares what the new generations will take with what is free: as much as the live ones, half of it again while indexes
// are built, and a gibibyte for everything else.
func (r *rebuild) room(ctx context.Context, tasks []*task) error {
	if len(tasks) == 0 {
		return nil
	}
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.projector.Name()
	}
	sizes, err := Sizes(ctx, r.Pool)
	if err != nil {
		return err
	}
	var needed uint64
	for _, t := range tasks {
		needed += sizes[Numbered{t.projector.Name(), t.live}]
	}
	needed += needed/2 + 1<<30
	if r.Free == nil {
		r.Log.Warn("whether there is room for a rebuild is not known", "projections", names, "needed_mib", needed>>20)
		return nil
	}
	free, err := r.Free()
	if err != nil {
		r.Log.Warn("whether there is room for a rebuild is not known", "projections", names, "needed_mib", needed>>20, "error", err)
		return nil
	}
	if free < needed {
		return &NoRoom{Needed: needed, Free: free}
	}
	return nil
}

// Numbered names a generation.
type Numbered struct {
	Projection string
	Generation int
}

// Sizes are the bytes on disk of every generation, indexes included.
func Sizes(ctx context.Context, q querier) (map[Numbered]uint64, error) {
	rows, err := q.Query(ctx, `SELECT g.projection, g.generation, coalesce(sum(pg_total_relation_size(to_regclass(t.name || '_' || g.generation))), 0)::bigint
		  FROM projection_generations g LEFT JOIN LATERAL unnest(g.tables) AS t (name) ON true GROUP BY 1, 2`)
	if err != nil {
		return nil, fmt.Errorf("projections: sizes: %w", err)
	}
	sizes := map[Numbered]uint64{}
	var n Numbered
	var bytes int64
	if _, err := pgx.ForEachRow(rows, []any{&n.Projection, &n.Generation, &bytes}, func() error {
		sizes[n] = uint64(max(0, bytes))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("projections: sizes: %w", err)
	}
	return sizes, nil
}

// The notes of a rebuild, for other processes and for people.

func noteBegun(ctx context.Context, pool *pgxpool.Pool, g Generation, swap SwapMode, by string) error {
	_, err := pool.Exec(ctx, `INSERT INTO projection_rebuilds (projection, generation, revision, swap, asked_by, asked_at) VALUES ($1, $2, $3, $4, $5, cairn_now())
		ON CONFLICT (projection, generation) DO UPDATE SET revision = EXCLUDED.revision, swap = EXCLUDED.swap, asked_by = EXCLUDED.asked_by,
			asked_at = EXCLUDED.asked_at, swapped_at = NULL, failed_at = NULL, failure = NULL`, g.Projection, g.Number, g.Revision, string(swap), Text(by))
	return noted(err)
}

func noteSwapped(ctx context.Context, pool *pgxpool.Pool, g Generation) error {
	_, err := pool.Exec(ctx, `UPDATE projection_rebuilds SET swapped_at = cairn_now(), failed_at = NULL, failure = NULL
		WHERE projection = $1 AND generation = $2`, g.Projection, g.Number)
	return noted(err)
}

func note(ctx context.Context, pool *pgxpool.Pool, g Generation, failure error) error {
	if ctx.Err() != nil || errors.Is(failure, context.Canceled) {
		return nil // it was told to end
	}
	_, err := pool.Exec(ctx, `UPDATE projection_rebuilds SET failed_at = cairn_now(), failure = $3 WHERE projection = $1 AND generation = $2`,
		g.Projection, g.Number, Text(failure.Error()))
	return noted(err)
}

func noted(err error) error {
	if err != nil {
		return fmt.Errorf("projections: note a rebuild: %w", err)
	}
	return nil
}

func swapMode(ctx context.Context, pool *pgxpool.Pool, g Generation) (SwapMode, error) {
	mode := SwapManual // nobody knows who began it
	err := pool.QueryRow(ctx, `SELECT swap FROM projection_rebuilds WHERE projection = $1 AND generation = $2`, g.Projection, g.Number).Scan(&mode)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("projections: %s: %w", g.Projection, err)
	}
	return mode, nil
}
