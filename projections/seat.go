package projections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
)

// seat is the place of one generation in one lane of one partition.
type seat struct {
	projector  Projector
	generation Generation
	partition  int32
	lane       int
	checkpoint streams.Checkpoint
	skips      map[string]bool // ids of events that the projector steps over
}

// of is the seat's lane.
func (s *seat) of() lane { return lane{of: s.generation.Lanes, number: s.lane} }

// feeding are the generations that are fed and not paused, in the snapshot of q.
func feeding(ctx context.Context, q querier) ([]Generation, error) {
	return generations(ctx, q, `WHERE g.state = 'feeding' AND p.paused_at IS NULL ORDER BY g.projection, g.generation`)
}

// seatsOf reads where those of them stand whose revision is compiled in.
func seatsOf(ctx context.Context, pool *pgxpool.Pool, projectors []Projector, feeding []Generation, partition int32) ([]*seat, error) {
	var targets []FillTarget
	for _, g := range feeding {
		if p := compiled(projectors, g); p != nil {
			targets = append(targets, FillTarget{Projector: p, Generation: g})
		}
	}
	return placed(ctx, pool, targets, partition)
}

// compiled is the projector of a generation's revision; nil: this program has none.
func compiled(projectors []Projector, g Generation) Projector {
	for _, p := range projectors {
		if p.Name() == g.Projection && p.Revision() == g.Revision {
			return p
		}
	}
	return nil
}

// placed reads where generations stand in all their lanes of a partition, and puts new ones at the start.
func placed(ctx context.Context, pool *pgxpool.Pool, targets []FillTarget, partition int32) ([]*seat, error) {
	var seats []*seat
	skips := map[string]map[string]bool{}
	batch := &pgx.Batch{}
	start := streams.Start()
	a := start.Acceptance
	for _, t := range targets {
		g := t.Generation
		// The lock on its row: a generation that was never fed may be replaced at this moment.
		batch.Queue(`INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
			SELECT g.projection, g.generation, $3, lane, $4, $5, $6, $7, $8, $9, $10, cairn_now() FROM projection_generations g, generate_series(0, $11 - 1) AS lane
			 WHERE g.projection = $1 AND g.generation = $2 AND g.lanes = $11 FOR SHARE OF g ON CONFLICT DO NOTHING`,
			g.Projection, g.Number, partition, start.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset, g.Lanes)
		batch.Queue(`SELECT c.lane, `+checkpointFields+` FROM projection_checkpoints c
			WHERE c.projection = $1 AND c.generation = $2 AND c.partition = $3 ORDER BY c.lane`, g.Projection, g.Number, partition).
			Query(func(rows pgx.Rows) error {
				before := len(seats)
				var s seat
				_, err := pgx.ForEachRow(rows, append([]any{&s.lane}, checkpointTargets(&s.checkpoint)...), func() error {
					seats = append(seats, &seat{projector: t.Projector, generation: g, partition: partition, lane: s.lane, checkpoint: s.checkpoint})
					return nil
				})
				if err == nil && len(seats)-before != g.Lanes {
					err = errConflict // it was dropped, or has other lanes by now
				}
				return err
			})
		if skips[g.Projection] != nil {
			continue
		}
		ids := map[string]bool{}
		skips[g.Projection] = ids
		batch.Queue(`SELECT event_id FROM projection_skips WHERE projection = $1`, g.Projection).Query(func(rows pgx.Rows) error {
			var id string
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error { ids[id] = true; return nil })
			return err
		})
	}
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("projections: read the checkpoints of partition %d: %w", partition, err)
	}
	for _, s := range seats {
		s.skips = skips[s.generation.Projection]
	}
	return seats, nil
}

// errConflict says that another copy of a projector moved its checkpoint: read it again and go on from there.
var errConflict = errors.New("projections: another copy moved the checkpoint")

// advance is the first statement of every transaction: it moves the checkpoints from where they are expected,
// or fails. It also clears the mark of a projector that had stopped, which has now got further.
//
// Who knows another number of lanes moves nothing: a process that stood still while the lanes were changed would apply the
// events of other scopes, or leave some out, under a checkpoint that is where it expects it. Either the number is read as it
// is now, or the row is one that changing it has replaced meanwhile (setLanes), and is gone when its lock is free.
func advance(ctx context.Context, tx pgx.Tx, seats []*seat, next streams.Checkpoint) error {
	names, generations, expected := make([]string, len(seats)), make([]int32, len(seats)), make([]int64, len(seats))
	lanes, of := make([]int32, len(seats)), make([]int32, len(seats))
	eras := make([]int32, len(seats)) // an offset is one in its era only: a migration of the log leaves another
	for i, s := range seats {
		names[i], generations[i], expected[i] = s.projector.Name(), int32(s.generation.Number), s.checkpoint.Next
		eras[i], lanes[i], of[i] = int32(s.checkpoint.Acceptance.Era), int32(s.lane), int32(s.generation.Lanes)
	}
	a := next.Acceptance
	tag, err := tx.Exec(ctx, `UPDATE projection_checkpoints c
		   SET next_offset = $6, era = $7, lead = $8, writer = $9, closed = $10, after_era = $11, command_offset = $12, updated_at = cairn_now(),
		       stopped_at = NULL, stopped_offset = NULL, stopped_event = NULL, stopped_reason = NULL
		  FROM unnest($1::text[], $2::int[], $3::bigint[], $4::int[], $13::int[], $14::int[]) AS k (projection, generation, expected, era, lane, lanes)
		  JOIN projection_generations g ON g.projection = k.projection AND g.generation = k.generation AND g.lanes = k.lanes
		 WHERE c.projection = k.projection AND c.generation = k.generation AND c.partition = $5 AND c.lane = k.lane
		   AND c.next_offset = k.expected AND c.era = k.era`,
		names, generations, expected, eras, seats[0].partition, next.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset, lanes, of)
	if err != nil {
		return fmt.Errorf("projections: move the checkpoint: %w", err)
	}
	if tag.RowsAffected() != int64(len(seats)) && !safety.Off(safety.Checkpoint) {
		return errConflict
	}
	return nil
}

// cutAfter is the checkpoint right after a counted commit: a commit counts only under the era, lead and
// writer it names, so they are what a reader remembers then.
func cutAfter(c streams.Commit) streams.Checkpoint {
	return streams.Checkpoint{
		Next: c.Place.Offset + 1,
		Acceptance: streams.Acceptance{
			Era: c.Era, Lead: c.Lead, Writer: c.Writer, After: streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset},
		},
	}
}

// passing reports an error that says nothing about the event: the connection, the server's load, a shutdown,
// our own end. Everything else can never work.
func passing(ctx context.Context, err error) bool {
	var event *EventError
	var server *pgconn.PgError
	var network net.Error
	var connect *pgconn.ConnectError
	var marked *passes
	switch {
	case ctx.Err() != nil, errors.Is(err, errConflict), errors.As(err, &marked):
		return true
	case errors.As(err, &server):
		switch server.Code[:2] {
		case "08", "40", "53", "55", "57", "58": // connection, rollback, resources, locks, operator, system
			return true
		}
		return server.Code == "25006" // read-only: the server that we reached is no longer the primary
	case errors.As(err, &event):
		return false
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, net.ErrClosed):
		return true
	}
	return pgconn.SafeToRetry(err)
}
