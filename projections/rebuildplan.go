package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
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

// differed reports whether the last look at a generation beside the live one found it to be wrong.
func (s lineage) differed(g Generation) bool {
	v, found := newestVerdict(s.live, g)
	return found && !v.Clean()
}

// plan takes up what is there, or begins.
func (r *rebuild) plan(ctx context.Context) error {
	found, err := lineages(ctx, r.Pool)
	if err != nil {
		return err
	}
	var begin []*task
	var rate int
	var memory int64
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
		if t.err = r.fed(ctx, t, s.live); t.err != nil {
			continue
		}
		g, unfinished := s.next()
		switch {
		case !unfinished:
			begin = append(begin, t)
			continue
		case g.Revision > projector.Revision():
			t.generation = g
			t.err = fmt.Errorf("projections: a newer release began generation %d of %s: let it go on there, or drop it with `cairn projections drop %s %d`",
				g.Number, name, name, g.Number)
			continue
		case g.Revision < projector.Revision():
			// Nobody would read it: this release has a newer one. But where it has stopped is evidence.
			stopped, err := stopsOf(ctx, r.Pool, name)
			if err != nil {
				return err
			}
			if at, stands := stopped[g.Number]; stands && r.by == background {
				t.generation = g
				t.err = fmt.Errorf("projections: generation %d of %s, of a release before, has stopped at event %s: look at it, and drop it with `cairn projections drop %s %d`",
					g.Number, name, at.Event, name, g.Number)
				continue
			}
			if err := Drop(ctx, r.Pool, name, g.Number); err != nil {
				return err
			}
			begin = append(begin, t)
			continue
		}
		t.generation, t.takenUp = g, true
		if r.Swap == "" || r.by == background {
			var o order
			if o, err = orderOf(ctx, r.Pool, g); err != nil {
				return err
			}
			t.swap, rate, memory = o.swap, least(rate, o.rate), least(memory, o.memory)
		} else if err := r.noteBegun(ctx, t); err != nil { // who takes it up after us does what we were told
			return err
		}
		r.Log.Info("a rebuild goes on", "projection", name, "generation", g.Number, "state", g.State)
	}
	r.MaxRate, r.Memory = cmp.Or(rate, r.MaxRate), cmp.Or(memory, r.Memory)
	return r.begin(ctx, begin)
}

// least is the smaller of two bounds, of which 0 is none.
func least[N int | int64](a, b N) N {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// fed says at once where a rebuild would wait in vain. That the live generation has stopped may be why it is rebuilt: by a newer
// revision, or for an operator who swaps without a comparison.
func (r *rebuild) fed(ctx context.Context, t *task, live Generation) error {
	err := stands(ctx, r.Pool, live, live)
	if err == nil || !errors.Is(err, errStopped) || t.projector.Revision() <= live.Revision && t.swap == SwapAuto {
		return noted(err)
	}
	r.Log.Warn("what is rebuilt can be compared with nothing: it is for an operator to let it be read", "projection", live.Projection, "because", err)
	return nil
}

// distinct are names, each once.
func distinct(names []string) []string {
	var found []string
	for _, name := range names {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
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
		if err := r.noteBegun(ctx, t); err != nil {
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
