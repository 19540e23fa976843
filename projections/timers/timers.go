// Package timers is the read model of wishes to be woken. It is a fold of what events set and clear, due by
// the database's clock; firing is a command that somebody else sends.
package timers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Name is the model's name.
const Name = "timers"

// Timer is one that was set and not cleared.
type Timer struct {
	Scope  domain.Scope
	Stream domain.Stream
	ID     string
	Group  string
	Due    time.Time
	// Position is that of the event that set it.
	Position streams.Position
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

// quiet leaves out what was fired less than a minute ago: the event that clears it may be under way. What a clock that was
// ahead calls the future is not less than a minute ago. OFFSET 0 has each timer looked up by its key, instead of all firings
// read to find the few that are due.
const quiet = `NOT EXISTS (SELECT 1 FROM timer_firings f WHERE f.scope = t.scope AND f.stream = t.stream AND f.id = t.id
	AND f.due = t.due AND f.fired_at > cairn_now() - interval '1 minute' AND f.fired_at < cairn_now() + interval '1 minute' OFFSET 0)
	AND t.partition IN (SELECT cairn_caught_up('` + Name + `')) AND EXISTS (SELECT cairn_caught_up('` + Name + `')) AND NOT EXISTS (SELECT 1 FROM effects_switch WHERE paused)`

// Due are the timers that are due by cairn_now(), the longest overdue first, at most limit. It answers
// nothing while effects are paused, nor from a partition in which the model is not caught up.
func (m *Model) Due(ctx context.Context, limit int) ([]Timer, error) {
	found, err := projections.Rows(ctx, m.db, Name, `SELECT scope, stream, id, grp, due, position, era, partition, log_offset FROM {timers} t
		WHERE {live} AND due <= cairn_now() AND `+quiet+` ORDER BY due LIMIT $1`, func(row pgx.CollectableRow) (Timer, error) {
		var t Timer
		var scope, stream string
		var position int64
		p := &t.Position
		err := row.Scan(&scope, &stream, &t.ID, &t.Group, &t.Due, &position, &p.Era, &p.Partition, &p.Offset)
		t.Scope, t.Stream, t.Due = domain.Scope(scope), domain.Stream(stream), t.Due.UTC()
		p.Scope, p.Position = t.Scope, uint64(position)
		return t, err
	}, limit)
	if err != nil {
		return nil, fmt.Errorf("timers: due: %w", err)
	}
	return found, nil
}

// Fired notes that timers were fired and answered for, so that Due leaves them out for a minute, whoever
// asks. It is a courtesy: a timer fired twice changes nothing.
func (m *Model) Fired(ctx context.Context, fired ...Timer) error {
	scopes, streams, ids, dues := make([]string, len(fired)), make([]string, len(fired)), make([]string, len(fired)), make([]time.Time, len(fired))
	for i, t := range fired {
		scopes[i], streams[i], ids[i], dues[i] = string(t.Scope), string(t.Stream), projections.Text(t.ID), t.Due
	}
	_, err := m.db.Pool().Exec(ctx, `WITH old AS (DELETE FROM timer_firings WHERE fired_at < cairn_now() - interval '10 minutes')
		INSERT INTO timer_firings (scope, stream, id, due, fired_at)
		SELECT DISTINCT ON (1, 2, 3) k.*, cairn_now() FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS k (scope, stream, id, due)
		ON CONFLICT (scope, stream, id) DO UPDATE SET due = EXCLUDED.due, fired_at = EXCLUDED.fired_at`, scopes, streams, ids, dues)
	if err != nil {
		return fmt.Errorf("timers: fired: %w", err)
	}
	return nil
}

// NextDue is how long, by cairn_now(), until Due has something; zero if it has now. ok is false where no
// timer is set. A timer set meanwhile may be due earlier: wait for Changed(Name) as well.
func (m *Model) NextDue(ctx context.Context) (wait time.Duration, ok bool, err error) {
	var micros *int64
	err = m.db.Row(ctx, Name, `SELECT (extract(epoch FROM t.due - cairn_now()) * 1000000)::bigint FROM {timers} t
		WHERE {live} AND `+quiet+` ORDER BY due LIMIT 1`, nil, &micros)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && micros == nil:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("timers: next due: %w", err)
	}
	return max(0, time.Duration(*micros)*time.Microsecond), true, nil
}
