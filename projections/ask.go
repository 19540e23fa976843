package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
)

// standing is where the live generation of a model stands in one lane of one partition.
type standing struct {
	model             string
	generation, lanes int
	pausedAt          *time.Time
	pausedBy          string
	partition         int32
	lane              int
	at                place
	newest            int // era in which the model stands anywhere
	mark              stopMark
}

const standings = `SELECT m.name, coalesce(p.generation, 0), coalesce(g.lanes, 1), p.paused_at, coalesce(p.paused_by, ''),
		coalesce(c.partition, -1), coalesce(c.lane, 0), coalesce(c.next_offset, 0), coalesce(c.era, 0),
		coalesce((SELECT max(x.era) FROM projection_checkpoints x WHERE x.projection = p.name AND x.generation = p.generation), 0),
		c.stopped_at, c.stopped_offset, c.stopped_event, c.stopped_reason
	  FROM unnest($1::text[]) AS m (name)
	  LEFT JOIN projections p ON p.name = m.name
	  LEFT JOIN projection_generations g ON g.projection = p.name AND g.generation = p.generation
	  LEFT JOIN projection_checkpoints c ON c.projection = p.name AND c.generation = p.generation AND c.partition = ANY ($2)`

// ask reads where the models stand.
func (w *Waiter) ask(ctx context.Context, p streams.Position, models []string) error {
	w.mu.Lock()
	turn := w.turn
	w.mu.Unlock()
	home := p.Partition // in the log of today
	if w.log != nil {
		home = w.log.PartitionOf(p.Scope)
	}
	rows, err := w.db.Pool().Query(ctx, standings, models, []int32{p.Partition, home})
	if err != nil {
		return fmt.Errorf("projections: wait: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s standing, err error) {
		err = row.Scan(append([]any{&s.model, &s.generation, &s.lanes, &s.pausedAt, &s.pausedBy, &s.partition, &s.lane,
			&s.at.next, &s.at.era, &s.newest}, s.mark.targets()...)...)
		return s, err
	})
	if err != nil {
		return fmt.Errorf("projections: wait: %w", err)
	}
	w.heardOf(turn, found)
	var verdict error
	for _, model := range models {
		err := w.judge(ctx, p, model, home, found)
		if err != nil && !sooner(verdict, err) {
			verdict = err
		}
	}
	return verdict
}

// sooner reports whether the first verdict needs no waiting, so that the second can't tell more.
func sooner(first, second error) bool {
	var behind *Behind
	return first != nil && (!errors.As(first, &behind) || errors.As(second, &behind))
}

// judge says whether a model has a position.
func (w *Waiter) judge(ctx context.Context, p streams.Position, model string, home int32, found []standing) error {
	behind := &Behind{Model: model, Partition: p.Partition, Want: p.Offset}
	for _, s := range found {
		if s.model != model || s.partition >= 0 && s.lane != LaneOf(p.Scope, s.lanes) {
			continue
		}
		older := s.newest > p.Era // than what the model reads: offsets of two eras can't be compared
		switch {
		case !older && s.partition == p.Partition && s.at.era == p.Era && s.at.next > p.Offset:
			return nil
		case older && (w.log == nil || s.partition == home && s.at.era > p.Era): // it has all that the old log had
			if has, err := w.inEvents(ctx, p, home); has || err != nil {
				return err
			}
		case s.partition >= 0 && (older && s.partition != home || !older && s.partition != p.Partition):
			continue // the place in another log
		}
		behind.Next = s.at.next
		if stopped := s.mark.stopped(model, s.partition); stopped != nil {
			return stopped
		}
		if s.pausedAt != nil {
			return &Paused{Projection: model, Since: s.pausedAt.UTC(), By: s.pausedBy, Partition: p.Partition, Next: s.at.next, Want: p.Offset}
		}
	}
	return behind
}

// inEvents reports whether a position of an older era is in the log of today, which has everything of that one.
func (w *Waiter) inEvents(ctx context.Context, p streams.Position, home int32) (has bool, err error) {
	var complete bool
	err = w.db.Row(ctx, "events", `SELECT EXISTS (SELECT 1 FROM {events} e WHERE e.scope = $1 AND e.position >= $2),
			EXISTS (SELECT 1 FROM projection_checkpoints c WHERE c.projection = 'events' AND c.generation = cairn_live('events')
				AND c.partition = $3 AND c.era > $4)
		WHERE {live}`, []any{string(p.Scope), int64(p.Position), home, p.Era}, &has, &complete)
	switch {
	case err != nil:
		return false, fmt.Errorf("projections: wait: %w", err)
	case !has && complete && w.log != nil:
		return false, &Unknown{Partition: p.Partition, Want: p.Offset}
	}
	return has, nil
}

// impossible answers an *Unknown for a position that this log can't have.
func (w *Waiter) impossible(p streams.Position) error {
	if w.log == nil || p.Era < w.era && w.era > 0 {
		return nil
	}
	if w.era > 0 && p.Era > w.era || p.Partition < 0 || p.Partition >= w.log.Partitions() {
		return &Unknown{Partition: p.Partition, Want: p.Offset}
	}
	return nil
}

// beyond answers an *Unknown for a position behind the end of the log. Where nobody says where that is, it may come.
func (w *Waiter) beyond(ctx context.Context, p streams.Position) error {
	if w.log == nil || p.Era < w.era && w.era > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	var sampled int64
	err := w.db.Pool().QueryRow(ctx, `SELECT coalesce(max(end_offset), 0) FROM log_ends WHERE partition = $1
		AND sampled_at > cairn_now() - interval '1 minute' AND sampled_at < cairn_now() + interval '1 minute'`, p.Partition).Scan(&sampled)
	if err != nil || p.Offset < sampled {
		return nil
	}
	if end, err := w.log.End(ctx, p.Partition); err == nil && p.Offset >= end {
		return &Unknown{Partition: p.Partition, End: end, Want: p.Offset}
	}
	return nil
}

// heardOf notes what is read, and how far it is where no notice said so yet, unless that may have changed since it was
// asked. What a notice said is newer.
func (w *Waiter) heardOf(turn int, found []standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.heard || w.turn != turn {
		return
	}
	for _, s := range found {
		name := Generation{Projection: s.model, Number: s.generation}.String()
		w.reads[s.model] = reading{generation: name, lanes: s.lanes}
		at := spot{name, s.partition, s.lane}
		if _, ok := w.places[at]; !ok && s.mark.at == nil && s.pausedAt == nil && s.partition >= 0 {
			w.places[at] = s.at
		}
	}
}
