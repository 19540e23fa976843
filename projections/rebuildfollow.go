package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PhaseElsewhere is of a rebuild that another process does.
const PhaseElsewhere = "rebuilt by another process"

// followEvery is how often is looked how far another process is.
const followEvery = 500 * time.Millisecond

// FollowOrRebuild is Rebuild, also where another process is at it: it tells how far that one is, and goes on if it dies. What the
// other one has finished is not done again.
func FollowOrRebuild(ctx context.Context, cfg RebuildConfig) ([]Rebuilt, error) {
	var done []Rebuilt
	follows := map[string]int{} // the generations that others are at
	began := time.Now()
	cfg.Names = distinct(cfg.Names)
	for {
		rest, finished, err := unfinished(ctx, cfg, follows)
		if err != nil {
			return done, err
		}
		for _, g := range finished {
			done = append(done, Rebuilt{Projection: g.Projection, Generation: g.Number, Revision: g.Revision, Swapped: true, TakenUp: true, Took: time.Since(began)})
			delete(follows, g.Projection)
		}
		if len(rest) == 0 {
			return done, nil
		}
		cfg.Names = rest
		own, err := Rebuild(ctx, cfg)
		var busy *Busy
		if !errors.As(err, &busy) {
			return append(done, own...), err
		}
		if err := follow(ctx, cfg, busy.Names, follows); err != nil {
			return done, err
		}
	}
}

// unfinished are the names without those whose followed generation is read by now.
func unfinished(ctx context.Context, cfg RebuildConfig, follows map[string]int) (rest []string, finished []Generation, err error) {
	if len(follows) == 0 {
		return cfg.Names, nil, nil
	}
	found, err := lineages(ctx, cfg.Pool)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range cfg.Names {
		if live := found[name].live; follows[name] > 0 && live.Number == follows[name] {
			finished = append(finished, live)
		} else {
			rest = append(rest, name)
		}
	}
	return rest, finished, nil
}

// follow tells how far others are, once, and waits a moment.
func follow(ctx context.Context, cfg RebuildConfig, names []string, follows map[string]int) error {
	found, err := lineages(ctx, cfg.Pool)
	if err != nil {
		return err
	}
	for _, name := range names {
		if g, has := found[name].next(); has {
			follows[name] = g.Number
		}
	}
	if cfg.Progress != nil {
		at, end, err := filled(ctx, cfg.Pool, follows)
		if err != nil {
			return err
		}
		cfg.Progress(RebuildProgress{Names: names, Progress: Progress{Phase: PhaseElsewhere, Done: at, Total: end}})
	}
	if !pause(ctx, followEvery) {
		return ctx.Err()
	}
	return nil
}

// filled are the log offsets that generations have, and those that there are, all together.
func filled(ctx context.Context, pool *pgxpool.Pool, follows map[string]int) (at, end int64, err error) {
	names, numbers := make([]string, 0, len(follows)), make([]int32, 0, len(follows))
	for name, number := range follows {
		names, numbers = append(names, name), append(numbers, int32(number))
	}
	err = pool.QueryRow(ctx, `SELECT coalesce(sum(least(c.next_offset, e.end_offset)), 0)::bigint, coalesce(sum(e.end_offset), 0)::bigint
		  FROM unnest($1::text[], $2::int[]) AS k (projection, generation)
		 CROSS JOIN (SELECT partition, max(end_offset) AS end_offset FROM log_ends GROUP BY partition) e
		  LEFT JOIN (SELECT projection, generation, partition, min(next_offset) AS next_offset FROM projection_checkpoints GROUP BY 1, 2, 3) c
		       USING (projection, generation, partition)`, names, numbers).Scan(&at, &end)
	if err != nil {
		return 0, 0, fmt.Errorf("projections: follow a rebuild: %w", err)
	}
	return at, end, nil
}
