package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lag is how far a generation of a read model is behind the log, in a partition: that of its slowest lane.
type Lag struct {
	Projection string `json:"projection"`
	Generation int    `json:"generation"`
	Live       bool   `json:"live"`
	Partition  int32  `json:"partition"`
	// Next is the offset that is read next.
	Next int64 `json:"next"`
	// Offsets are those of the log that are not read yet: commits, mostly.
	Offsets int64 `json:"offsets"`
	// Seconds since it was level with the log's end. It is seen by samples of that end, one a second, kept for a minute: more
	// than a minute is told as what the newest checkpoint says.
	Seconds float64 `json:"seconds"`
	Stopped bool    `json:"stopped"`
	Paused  bool    `json:"paused"`
}

// Lags are those of all generations, as any process can see them.
func Lags(ctx context.Context, q querier) ([]Lag, error) {
	rows, err := q.Query(ctx, `
		SELECT c.projection, c.generation, p.generation = c.generation, c.partition, c.next, greatest(0, coalesce(e.newest, c.next) - c.next),
		       CASE WHEN coalesce(e.newest, c.next) <= c.next THEN 0
		            ELSE extract(epoch FROM cairn_now() - coalesce(
		                (SELECT max(s.sampled_at) FROM log_ends s WHERE s.partition = c.partition AND s.end_offset <= c.next), least(c.updated_at, e.oldest)))
		       END::float8, c.stopped, p.paused_at IS NOT NULL
		  FROM (SELECT projection, generation, partition, min(next_offset) AS next, min(updated_at) AS updated_at, bool_or(stopped_at IS NOT NULL) AS stopped
		          FROM projection_checkpoints GROUP BY 1, 2, 3) c
		  JOIN projections p ON p.name = c.projection
		  LEFT JOIN LATERAL (SELECT max(s.end_offset) AS newest, min(s.sampled_at) AS oldest FROM log_ends s WHERE s.partition = c.partition) e ON true
		 ORDER BY 1, 2, 4`)
	if err != nil {
		return nil, fmt.Errorf("projections: lag: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Lag, err error) {
		err = row.Scan(&l.Projection, &l.Generation, &l.Live, &l.Partition, &l.Next, &l.Offsets, &l.Seconds, &l.Stopped, &l.Paused)
		l.Seconds = max(0, l.Seconds)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: lag: %w", err)
	}
	return found, nil
}

// Behind reports the lag as time.
func (l Lag) Behind() time.Duration { return time.Duration(l.Seconds * float64(time.Second)) }
