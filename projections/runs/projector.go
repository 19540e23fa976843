package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections"
)

// The revisions. Revision 2 has the agent in a column of its own, and an index to it.
const (
	before       = 1
	indexedSince = 2
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{indexedSince} }

// Previous is the revision before, which is fed as long as a generation of it is there.
func (m *Model) Previous() projections.Projector { return projector{before} }

type projector struct{ revision int }

func (projector) Name() string    { return Name }
func (p projector) Revision() int { return p.revision }

// key is a run as the table names it.
type key struct{ scope, run string }

// Apply folds the batch's events into the runs they belong to: read, folded, written once each.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	var events []projections.Event
	var keys []key
	rows := map[key]*Run{}
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		run := runOf(e.Value)
		if run == "" {
			continue
		}
		k := key{string(e.Scope), projections.Text(run)}
		if rows[k] == nil {
			rows[k] = &Run{ID: run, Thread: e.Stream.ID()}
			keys = append(keys, k)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil
	}
	if err := load(ctx, tx, b.Generation, keys, rows); err != nil {
		return err
	}
	for _, e := range events {
		rows[key{string(e.Scope), projections.Text(runOf(e.Value))}].fold(e)
	}
	b.Touch()
	return p.store(b, keys, rows)
}

func load(ctx context.Context, tx pgx.Tx, g projections.Generation, keys []key, rows map[key]*Run) error {
	scopes, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		scopes[i], ids[i] = k.scope, k.run
	}
	result, err := tx.Query(ctx, g.Expand(`SELECT t.scope, t.run, t.record FROM unnest($1::text[], $2::text[]) AS k (scope, run),
		LATERAL (SELECT * FROM {runs} m WHERE m.scope = k.scope AND m.run = k.run) t`), scopes, ids)
	if err != nil {
		return fmt.Errorf("runs: load: %w", err)
	}
	var k key
	var record []byte
	_, err = pgx.ForEachRow(result, []any{&k.scope, &k.run, &record}, func() error {
		r, err := decode(record)
		*rows[k] = r
		return err
	})
	if err != nil {
		return fmt.Errorf("runs: load: %w", err)
	}
	return nil
}

func (p projector) store(b projections.Batch, keys []key, rows map[key]*Run) error {
	n := len(keys)
	scopes, ids, threads, statuses := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	versions, posted, records, agents := make([]int64, n), make([]time.Time, n), make([][]byte, n), make([]string, n)
	for i, k := range keys {
		r := rows[k]
		record, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("runs: encode %s: %w", k.run, err)
		}
		scopes[i], ids[i], threads[i], statuses[i] = k.scope, k.run, projections.Text(r.Thread), string(r.Status)
		versions[i], posted[i], records[i], agents[i] = int64(r.MessageVersion), r.PostedAt, record, projections.Text(r.Agent)
	}
	if p.revision >= indexedSince {
		b.Queue(`INSERT INTO {runs} (scope, run, thread, version, status, created_at, record, agent)
			SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::bytea[], $8::text[])
			ON CONFLICT (scope, run) DO UPDATE SET thread = EXCLUDED.thread, version = EXCLUDED.version,
				status = EXCLUDED.status, created_at = EXCLUDED.created_at, record = EXCLUDED.record, agent = EXCLUDED.agent`,
			scopes, ids, threads, versions, statuses, posted, records, agents)
		return nil
	}
	b.Queue(`INSERT INTO {runs} (scope, run, thread, version, status, created_at, record)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::bytea[])
		ON CONFLICT (scope, run) DO UPDATE SET thread = EXCLUDED.thread, version = EXCLUDED.version,
			status = EXCLUDED.status, created_at = EXCLUDED.created_at, record = EXCLUDED.record`,
		scopes, ids, threads, versions, statuses, posted, records)
	return nil
}
