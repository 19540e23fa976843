package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
)

// relane gives all generations as many lanes as this engine wants, where no other engine runs: it holds every partition
// meanwhile. Lanes of a partition that do not stand level are first brought to where the furthest of them stands.
func (s *session) relane() error {
	e := s.engine
	partitions := e.cfg.Tailer.Partitions()
	for partition := range partitions {
		got, err := s.lock(s.life, partition)
		if got {
			defer s.unlock(context.WithoutCancel(s.life), partition) //nolint:errcheck // it ends with the session
		}
		if err != nil || !got {
			return err
		}
	}
	old, err := oldProcesses(s.life, e.cfg.Pool)
	if err != nil || old {
		return err
	}
	// One that is paused is not even levelled: it is not to be written.
	found, err := feeding(s.life, e.cfg.Pool)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, g := range found {
		if g.Lanes == e.cfg.Lanes || done[g.Projection] {
			continue
		}
		done[g.Projection] = true
		if err := e.levelLanes(s.life, Of(found, g.Projection)); err != nil {
			e.cfg.Log.Warn("the lanes of a read model do not stand level and stay as they are", "projection", g.Projection, "lanes", g.Lanes, "error", err)
			continue
		}
		if err := e.setLanes(s.life, g.Projection); err != nil {
			return err
		}
	}
	return nil
}

// oldProcesses reports whether a process of a release runs that knows one lane only: it was started before the registry had
// lanes.
func oldProcesses(ctx context.Context, q querier) (old bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM processes p WHERE p.touched_at > cairn_now() - interval '1 minute'
		AND p.started_at < (SELECT max(m.tstamp AT TIME ZONE current_setting('TimeZone')) FROM cairn_migrations m WHERE m.version_id = 11 AND m.is_applied))`).Scan(&old)
	if err != nil {
		return false, fmt.Errorf("projections: processes of the release before: %w", err)
	}
	return old, nil
}

// levelLanes feeds the lanes of generations that stand behind another lane of their partition up to that one's place.
func (e *Engine) levelLanes(ctx context.Context, all []Generation) error {
	for partition := range e.cfg.Tailer.Partitions() {
		for _, g := range all {
			p := compiled(e.cfg.Projectors, g)
			if p == nil || g.Lanes == 1 {
				continue
			}
			seats, err := placed(ctx, e.cfg.Pool, []FillTarget{{Projector: p, Generation: g}}, partition)
			if err != nil {
				return err
			}
			if err := e.level(ctx, partition, seats); err != nil {
				return err
			}
		}
	}
	return nil
}

// level brings seats to where the furthest of them stands.
func (e *Engine) level(ctx context.Context, partition int32, seats []*seat) error {
	from, to := seats[0].checkpoint, seats[0].checkpoint
	for _, s := range seats {
		if s.checkpoint.Next < from.Next {
			from = s.checkpoint
		}
		if s.checkpoint.Next > to.Next {
			to = s.checkpoint
		}
	}
	if from.Next == to.Next {
		return nil
	}
	byLane := map[lane][]*seat{}
	for _, s := range seats {
		byLane[s.of()] = append(byLane[s.of()], s)
	}
	err := e.cfg.Tailer.Tail(ctx, partition, from, func(ctx context.Context, b streams.Batch) error {
		for _, part := range chunks(b, maxEvents) {
			p := decode(e.cfg.Schema, part, nil).upTo(to)
			for l, behind := range byLane {
				if err := e.transact(ctx, behind, l.part(p)); err != nil {
					return err
				}
			}
			if p.next.Next >= to.Next {
				return errDone
			}
		}
		return nil
	})
	if err == errDone { //nolint:errorlint // handed through as it is
		return nil
	}
	return err
}

// upTo is what a piece has before a place, ending there if it reaches so far.
func (p *piece) upTo(to streams.Checkpoint) *piece {
	if p.next.Next <= to.Next {
		return p
	}
	cut := &piece{partition: p.partition, from: p.from, next: to}
	for i := range p.commits {
		if p.commits[i].Place.Offset >= to.Next {
			break
		}
		cut.commits, cut.values = p.commits[:i+1], p.values[:i+1]
	}
	return cut
}

// setLanes splits or joins the lanes of a projection's generations, if those of each partition stand level.
func (e *Engine) setLanes(ctx context.Context, projection string) error {
	return register(ctx, e.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM projection_generations WHERE projection = $1 FOR UPDATE`, projection); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT FROM projection_checkpoints WHERE projection = $1 FOR UPDATE`, projection); err != nil {
			return err
		}
		var uneven bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projection_checkpoints WHERE projection = $1 GROUP BY generation, partition
			HAVING count(DISTINCT (next_offset, era, lead, writer, closed, after_era, command_offset)) > 1 OR bool_or(stopped_at IS NOT NULL))
			OR EXISTS (SELECT FROM projection_generations WHERE projection = $1 AND state <> 'feeding')`, projection).Scan(&uneven)
		if err != nil {
			return err
		}
		if uneven {
			e.cfg.Log.Warn("the lanes of a read model do not stand level and stay as they are", "projection", projection)
			return nil
		}
		// All rows are new ones, also the first lane's: who waits for the lock of an old one to move it finds none (advance).
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE projection_checkpoints SET lane = -1 WHERE projection = $1 AND lane = 0`, projection)
		batch.Queue(`DELETE FROM projection_checkpoints WHERE projection = $1 AND lane > 0`, projection)
		batch.Queue(`INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
			SELECT projection, generation, partition, n, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at
			  FROM projection_checkpoints, generate_series(0, $2 - 1) AS n WHERE projection = $1 AND lane = -1`, projection, e.cfg.Lanes)
		batch.Queue(`DELETE FROM projection_checkpoints WHERE projection = $1 AND lane = -1`, projection)
		batch.Queue(`UPDATE projection_generations SET lanes = $2 WHERE projection = $1`, projection, e.cfg.Lanes)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		return send(ctx, tx, notice{Changed: []string{projection}})
	})
}
