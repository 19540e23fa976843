package threads

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{} }

type projector struct{}

func (projector) Name() string  { return Name }
func (projector) Revision() int { return 1 }

// Apply folds the batch's events into the rows they concern: read, fold, written once each.
func (projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	var events []projections.Event
	var keys []streams.StreamKey
	seen := map[streams.StreamKey]*Thread{}
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		key := streams.StreamKey{Scope: e.Scope, Stream: e.Stream}
		if _, ok := seen[key]; !ok {
			seen[key] = &Thread{Scope: e.Scope, ID: projections.Text(e.Stream.ID())}
			keys = append(keys, key)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil
	}
	if err := load(ctx, tx, b.Generation, keys, seen); err != nil {
		return err
	}
	for _, e := range events {
		seen[streams.StreamKey{Scope: e.Scope, Stream: e.Stream}].fold(e)
	}
	b.Touch()
	store(b, keys, seen)
	return nil
}

func (t *Thread) fold(e projections.Event) {
	if t.Head == 0 {
		t.CreatedAt = e.Time()
	}
	t.LastActivity, t.Head = e.Time(), e.Version
	switch v := e.Value.(type) {
	case thread.MessagePosted:
		t.Messages++
	case thread.RunStarted:
		t.ActiveRun = v.RunID
	case thread.RunCompleted:
		t.end(v.RunID)
	case thread.RunFailed:
		t.end(v.RunID)
	case thread.RunCancelled:
		t.end(v.RunID)
	case thread.Titled:
		t.TitleVersion, t.TitlePosition = e.Version, e.Position
	}
}

// end leaves the active run alone where a queued one was cancelled.
func (t *Thread) end(run string) {
	if projections.Text(t.ActiveRun) == projections.Text(run) {
		t.ActiveRun = ""
	}
}

func load(ctx context.Context, tx pgx.Tx, g projections.Generation, keys []streams.StreamKey, into map[streams.StreamKey]*Thread) error {
	scopes, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		scopes[i], ids[i] = string(key.Scope), projections.Text(key.Stream.ID())
	}
	rows, err := tx.Query(ctx, g.Expand(`SELECT t.* FROM unnest($1::text[], $2::text[]) AS k (scope, thread),
		LATERAL (SELECT `+fields+` FROM {threads} m WHERE m.scope = k.scope AND m.thread = k.thread) t`), scopes, ids)
	if err != nil {
		return fmt.Errorf("threads: load: %w", err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return fmt.Errorf("threads: load: %w", err)
	}
	byID := make(map[[2]string]Thread, len(found))
	for _, t := range found {
		byID[[2]string{string(t.Scope), t.ID}] = t
	}
	for i, key := range keys {
		if t, ok := byID[[2]string{scopes[i], ids[i]}]; ok {
			*into[key] = t
		}
	}
	return nil
}

func store(b projections.Batch, keys []streams.StreamKey, rows map[streams.StreamKey]*Thread) {
	n := len(keys)
	scopes, ids, active := make([]string, n), make([]string, n), make([]*string, n)
	created, last := make([]time.Time, n), make([]time.Time, n)
	messages, heads, versions, positions := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, key := range keys {
		t := rows[key]
		scopes[i], ids[i], created[i], last[i] = string(t.Scope), t.ID, t.CreatedAt, t.LastActivity
		messages[i], heads[i], versions[i], positions[i] = int64(t.Messages), int64(t.Head), int64(t.TitleVersion), int64(t.TitlePosition)
		if t.ActiveRun != "" {
			run := projections.Text(t.ActiveRun)
			active[i] = &run
		}
	}
	b.Queue(`INSERT INTO {threads} (`+fields+`)
		SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[])
		ON CONFLICT (scope, thread) DO UPDATE SET last_activity = EXCLUDED.last_activity, messages = EXCLUDED.messages,
			active_run = EXCLUDED.active_run, head = EXCLUDED.head, title_version = EXCLUDED.title_version, title_position = EXCLUDED.title_position`,
		scopes, ids, created, last, messages, active, heads, versions, positions)
}
