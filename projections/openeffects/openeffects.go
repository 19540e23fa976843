// Package openeffects is the read model of effects without outcome, and the claims of the workers that do
// them. It is a fold of what events open, start and close; it does no effect itself.
package openeffects

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Name is the model's name.
const Name = "open_effects"

// Effect is an intent without outcome.
type Effect struct {
	Scope      domain.Scope
	Stream     domain.Stream
	ID         string
	Kind       string
	Group      string
	Device     string // only where the kind is "device"
	Repeatable bool
	Started    bool
	// Position is the intent's: read everything with it.
	Position streams.Position
	Version  uint64 // of the intent in its stream
	EventID  string
	// Trace is the traceparent of what appended the intent, or "".
	Trace string
}

// Claimed is an effect and who does it.
type Claimed struct {
	Effect
	Worker string // empty: nobody
	Alive  bool   // the worker lives
}

// DevicePair is how Take names a device of a scope.
func DevicePair(scope domain.Scope, device string) string { return string(scope) + "/" + device }

// Model reads the table and keeps the claims.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

const common = `e.scope, e.stream, e.id, e.kind, e.grp, e.device, e.repeatable, e.started, e.position, e.era, e.partition, e.log_offset, e.version, e.event_id`

// fields are those of an effect in a generation.
func fields(g projections.Generation) string {
	if g.Revision < traced {
		return common + `, ''`
	}
	return common + `, e.trace`
}

// claim is who has an effect e, looked up by its key: OFFSET 0 keeps the planner from reading all claims to join them.
const claim = `LEFT JOIN LATERAL (SELECT worker FROM effect_claims t WHERE t.scope = e.scope AND t.id = e.id OFFSET 0) c ON true`

// Take claims effects of those kinds for a worker, the oldest first, at most limit. It takes what nobody
// holds, or who holds it is dead; of the kind "device" only those of the devices named by DevicePair. It
// takes nothing while effects are paused, nothing from a partition in which the model is not caught up, and
// never what was started and must not be repeated (that is Abandoned). The worker counts as touched; a touch that
// is a second old will do, so that a Take which finds nothing writes nothing.
//
// Of two workers that take at once one gets an effect: the claim's row decides, and it is replaced only if it
// still names the dead worker that was seen.
func (m *Model) Take(ctx context.Context, worker string, kinds []string, devices []string, limit int) ([]Effect, error) {
	scopes, ids := split(devices)
	which := `e.kind = ANY ($2) AND (e.kind <> 'device' OR (e.scope, e.device) IN (SELECT * FROM unnest($3::text[], $4::text[])))`
	if len(kinds) == 1 && kinds[0] == "device" { // in words that fit the index
		which = `e.kind = 'device' AND $2::text[] IS NOT NULL AND (e.scope, e.device) IN (SELECT * FROM unnest($3::text[], $4::text[]))`
	}
	taken, err := m.query(ctx, func(g projections.Generation) string {
		return `WITH me AS (
			INSERT INTO workers (worker, touched_at) SELECT $1, cairn_now()
			 WHERE NOT EXISTS (SELECT 1 FROM workers WHERE worker = $1 AND touched_at > cairn_now() - interval '1 second')
			ON CONFLICT (worker) DO UPDATE SET touched_at = EXCLUDED.touched_at
		), free AS (
			-- From each partition the oldest: so it goes by the index, however many there are.
			SELECT f.* FROM (SELECT cairn_caught_up('` + Name + `') AS partition) p, LATERAL (
				SELECT e.scope, e.id, c.worker AS dead, e.partition, e.log_offset
				  FROM {open_effects} e ` + claim + `
				 WHERE e.partition = p.partition AND ` + which + `
				   AND (e.repeatable OR NOT e.started)
				   AND (c.worker IS NULL OR c.worker <> $1 AND NOT cairn_alive(c.worker))
				 ORDER BY e.log_offset LIMIT $5
				   FOR UPDATE OF e SKIP LOCKED -- what another takes right now is no concern of ours
			) f
			 WHERE {live} AND NOT EXISTS (SELECT 1 FROM effects_switch WHERE paused)
			 ORDER BY f.partition, f.log_offset LIMIT $5
		), claimed AS (
			INSERT INTO effect_claims AS t (scope, id, worker, claimed_at)
			SELECT scope, id, $1, cairn_now() FROM free
			ON CONFLICT (scope, id) DO UPDATE SET worker = EXCLUDED.worker, claimed_at = EXCLUDED.claimed_at
			 WHERE t.worker = (SELECT f.dead FROM free f WHERE f.scope = t.scope AND f.id = t.id)
			RETURNING scope, id
		)
		SELECT ` + fields(g) + ` FROM claimed k, LATERAL (SELECT * FROM {open_effects} o WHERE o.scope = k.scope AND o.id = k.id OFFSET 0) e
		 ORDER BY e.partition, e.log_offset`
	}, worker, kinds, scopes, ids, limit)
	return taken, wrap("take", err)
}

// Release gives up a claim before the effect has an outcome, so that another may take it. An effect that has
// its outcome needs no release: it leaves the model by its event.
func (m *Model) Release(ctx context.Context, worker string, scope domain.Scope, id string) error {
	tag, err := m.db.Pool().Exec(ctx, `DELETE FROM effect_claims WHERE scope = $1 AND id = $2 AND worker = $3`, string(scope), projections.Text(id), worker)
	if err == nil && tag.RowsAffected() > 0 {
		err = projections.Wake(ctx, m.db.Pool(), Name)
	}
	return wrap("release", err)
}

// Abandoned are effects that were started, must not be repeated, and whose worker is dead or gave them up:
// their outcome is unknown. Like Take it looks only where the model is caught up, and not while paused.
func (m *Model) Abandoned(ctx context.Context, limit int) ([]Effect, error) {
	found, err := m.query(ctx, func(g projections.Generation) string {
		return `SELECT ` + fields(g) + ` FROM (SELECT cairn_caught_up('` + Name + `') AS partition) p, LATERAL (
			SELECT e.* FROM {open_effects} e ` + claim + `
			 WHERE e.partition = p.partition AND e.started AND NOT e.repeatable AND (c.worker IS NULL OR NOT cairn_alive(c.worker))
			 ORDER BY e.log_offset LIMIT $1
		) e WHERE {live} AND NOT EXISTS (SELECT 1 FROM effects_switch WHERE paused)
		 ORDER BY e.partition, e.log_offset LIMIT $1`
	}, limit)
	return found, wrap("abandoned", err)
}

// List are the open effects with their claims, the oldest first, at most limit. An empty scope means all.
func (m *Model) List(ctx context.Context, scope domain.Scope, limit int) ([]Claimed, error) {
	from := `(SELECT * FROM {open_effects} WHERE scope = $1 OFFSET 0)` // few: never walk all others' to find them in order
	if scope == "" {
		from = `(SELECT * FROM {open_effects} WHERE $1 = '')`
	}
	found, err := projections.RowsOf(ctx, m.db, Name, func(g projections.Generation) string {
		return `SELECT ` + fields(g) + `, coalesce(c.worker, ''), c.worker IS NOT NULL AND cairn_alive(c.worker)
		  FROM ` + from + ` e ` + claim + `
		 WHERE {live} ORDER BY e.partition, e.log_offset LIMIT $2`
	}, func(row pgx.CollectableRow) (Claimed, error) {
		var c Claimed
		var err error
		c.Effect, err = scan(row, &c.Worker, &c.Alive)
		return c, err
	}, string(scope), limit)
	return found, wrap("list", err)
}

// Sweep removes the claims of effects that have had their outcome for a minute, and answers how many.
func (m *Model) Sweep(ctx context.Context) (int64, error) {
	tag, err := m.db.Exec(ctx, Name, `DELETE FROM effect_claims c WHERE {live} AND claimed_at < cairn_now() - interval '1 minute'
		AND NOT EXISTS (SELECT 1 FROM {open_effects} e WHERE e.scope = c.scope AND e.id = c.id)`)
	return tag.RowsAffected(), wrap("sweep", err)
}

func split(pairs []string) (scopes, devices []string) {
	scopes, devices = make([]string, 0, len(pairs)), make([]string, 0, len(pairs))
	for _, pair := range pairs {
		scope, device, _ := strings.Cut(pair, "/")
		scopes, devices = append(scopes, scope), append(devices, projections.Text(device))
	}
	return scopes, devices
}

func (m *Model) query(ctx context.Context, sql func(projections.Generation) string, args ...any) ([]Effect, error) {
	return projections.RowsOf(ctx, m.db, Name, sql, func(row pgx.CollectableRow) (Effect, error) { return scan(row) }, args...)
}

func scan(row pgx.CollectableRow, more ...any) (Effect, error) {
	var e Effect
	var scope, stream string
	var position, version int64
	p := &e.Position
	err := row.Scan(append([]any{
		&scope, &stream, &e.ID, &e.Kind, &e.Group, &e.Device, &e.Repeatable, &e.Started,
		&position, &p.Era, &p.Partition, &p.Offset, &version, &e.EventID, &e.Trace,
	}, more...)...)
	e.Scope, e.Stream, e.Version = domain.Scope(scope), domain.Stream(stream), uint64(version)
	p.Scope, p.Position = e.Scope, uint64(position)
	return e, err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("open effects: %s: %w", what, err)
}
