// Package prune deletes rows of the read model of events that nothing needs any more: the history of threads in which
// nothing has happened for long. The log keeps everything; filling the read model anew brings the rows back.
package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
)

// Options say what to delete.
type Options struct {
	// Before: a thread whose newest event is earlier loses its history, but for that event and its title's.
	Before time.Time
	// Fold is the fold number of threads' states in this program: a state of another must be folded again, from all events.
	Fold int
	// NoTimeTravel gives up that such threads, and their accounts before, can be looked at as they were.
	NoTimeTravel bool
	// Progress is told how many rows are deleted. Nil: nobody.
	Progress func(Found)
}

// Found is what there is to delete, or was deleted, and what is not, because it is needed.
type Found struct {
	Threads int64 `json:"threads"` // that lose their history
	Scopes  int64 `json:"scopes"`  // whose they are
	Rows    int64 `json:"rows"`
	// Quiet threads that keep theirs:
	Busy   int64 `json:"kept_busy"`   // a run, an effect or a timer is open, or a read model does not have the newest event yet
	Refold int64 `json:"kept_refold"` // the writer's state must be folded again from all events
}

// What keeps everything from being deleted.
var (
	ErrTimeTravel = errors.New("time travel needs these rows: threads, and accounts, could not be looked at as they were any more; if that may be given up, say so with --give-up-time-travel")
	ErrRebuild    = errors.New("the read model of events has a second generation, which is compared with this one: swap it, then drop the other (`cairn projections list`), and repeat this")
	ErrStands     = errors.New("a read model stands still, and may need these rows: look at `cairn projections list`, and repeat this when all go on")
)

// candidates are the quiet threads that have a history, and why some keep it. $1 is the time, $2 the fold, $3 the generation
// of events.
const candidates = `quiet AS (
	SELECT t.scope, 'thread-' || t.thread AS stream, t.head, t.title_version,
		t.active_run IS NOT NULL
		OR EXISTS (SELECT 1 FROM %[1]s e WHERE e.scope = t.scope AND e.stream = 'thread-' || t.thread AND e.version > t.head)
		OR EXISTS (SELECT 1 FROM runs r WHERE r.scope = t.scope AND r.thread = t.thread AND r.status NOT IN ('completed', 'failed', 'cancelled'))
		OR EXISTS (SELECT 1 FROM open_effects o WHERE o.scope = t.scope AND o.stream = 'thread-' || t.thread)
		OR EXISTS (SELECT 1 FROM timers i WHERE i.scope = t.scope AND i.stream = 'thread-' || t.thread) AS busy,
		NOT EXISTS (SELECT 1 FROM writer_states w WHERE w.scope = t.scope AND w.stream = 'thread-' || t.thread AND w.version >= t.head AND w.fold = $2) AS refold
	  FROM threads t
	 WHERE t.last_activity < $1 AND t.head > 1
	   AND NOT EXISTS (SELECT 1 FROM event_floors f WHERE f.generation = $3 AND f.scope = t.scope AND f.stream = 'thread-' || t.thread AND f.floor >= t.head)
)`

// Look says what Prune would delete, and deletes nothing.
func Look(ctx context.Context, pool *pgxpool.Pool, o Options) (Found, error) {
	table, generation, err := ready(ctx, pool)
	if err != nil {
		return Found{}, err
	}
	var f Found
	err = pool.QueryRow(ctx, `WITH `+fmt.Sprintf(candidates, table)+`
		SELECT count(*) FILTER (WHERE busy), count(*) FILTER (WHERE refold AND NOT busy), count(*) FILTER (WHERE NOT busy AND NOT refold),
			count(DISTINCT scope) FILTER (WHERE NOT busy AND NOT refold),
			coalesce(sum((SELECT count(*) FROM `+table+` e WHERE e.scope = q.scope AND e.stream = q.stream AND e.version < q.head AND e.version <> q.title_version))
				FILTER (WHERE NOT busy AND NOT refold), 0)::bigint
		  FROM quiet q`, o.Before, o.Fold, generation).Scan(&f.Busy, &f.Refold, &f.Threads, &f.Scopes, &f.Rows)
	if err != nil {
		return f, fmt.Errorf("prune: look: %w", err)
	}
	return f, nil
}

// threadsAtOnce is how many threads lose their history in one transaction.
const threadsAtOnce = 200

// Prune deletes. What it did when it is broken off is done; repeat it for the rest.
func Prune(ctx context.Context, pool *pgxpool.Pool, o Options) (Found, error) {
	if !o.NoTimeTravel {
		return Found{}, ErrTimeTravel
	}
	found, err := Look(ctx, pool, o)
	if err != nil {
		return found, err
	}
	found.Threads, found.Rows = 0, 0
	for {
		threads, rows, err := some(ctx, pool, o)
		if err != nil {
			return found, err
		}
		found.Threads, found.Rows = found.Threads+threads, found.Rows+rows
		if threads == 0 {
			return found, nil
		}
		if o.Progress != nil {
			o.Progress(found)
		}
	}
}

// some prunes some threads. Rows and floors go in one transaction, so that no reader ever takes a part for the whole.
func some(ctx context.Context, pool *pgxpool.Pool, o Options) (threads, rows int64, err error) {
	table, generation, err := ready(ctx, pool)
	if err != nil {
		return 0, 0, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// A generation that is made meanwhile is filled from the log, and has all of it.
		return tx.QueryRow(ctx, `WITH `+fmt.Sprintf(candidates, table)+`, chosen AS MATERIALIZED (
				SELECT * FROM quiet WHERE NOT busy AND NOT refold ORDER BY scope, stream LIMIT $4
			), gone AS (
				DELETE FROM `+table+` e USING chosen c
				 WHERE e.scope = c.scope AND e.stream = c.stream AND e.version < c.head AND e.version <> c.title_version
				RETURNING e.scope, e.position
			), floors AS (
				INSERT INTO event_floors AS f (generation, scope, stream, floor, pruned_at)
				SELECT $3, scope, stream, head, cairn_now() FROM chosen
				UNION ALL SELECT $3, scope, '', max(position), cairn_now() FROM gone GROUP BY scope
				ON CONFLICT (generation, scope, stream) DO UPDATE SET floor = greatest(f.floor, EXCLUDED.floor), pruned_at = EXCLUDED.pruned_at
				RETURNING 1
			) SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM gone), (SELECT count(*) FROM floors)`,
			o.Before, o.Fold, generation, threadsAtOnce).Scan(&threads, &rows, new(int64))
	})
	if err != nil {
		return 0, 0, fmt.Errorf("prune: %w", err)
	}
	return threads, rows, nil
}

// ready is the table of events, unless rows of it are needed as a whole.
func ready(ctx context.Context, pool *pgxpool.Pool) (table string, generation int, err error) {
	all, err := projections.Generations(ctx, pool)
	if err != nil {
		return "", 0, err
	}
	for _, g := range all {
		if g.Projection != events.Name {
			continue
		}
		if table != "" || g.State != projections.Feeding {
			return "", 0, ErrRebuild
		}
		table, generation = g.Table("events"), g.Number
	}
	var still bool
	err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projections WHERE paused_at IS NOT NULL)
		OR EXISTS (SELECT FROM projection_checkpoints c JOIN projections p ON p.name = c.projection AND p.generation = c.generation WHERE c.stopped_at IS NOT NULL)`).Scan(&still)
	if err != nil {
		return "", 0, fmt.Errorf("prune: %w", err)
	}
	if still {
		return "", 0, ErrStands
	}
	return table, generation, nil
}
