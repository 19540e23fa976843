package openeffects

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// traced is the revision since which the table has the traces of intents.
const traced = 2

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{revision: traced} }

// Previous fills the table of the revision before, where that is still read.
func (m *Model) Previous() projections.Projector { return projector{revision: traced - 1} }

type projector struct{ revision int }

func (projector) Name() string    { return Name }
func (p projector) Revision() int { return p.revision }

// Repartition implements projections.Repartitioner: only rows of partitions that are caught up are acted on.
func (projector) Repartition(ctx context.Context, tx pgx.Tx, partitionOf func(domain.Scope) int32) error {
	return projections.Repartition(ctx, tx, "open_effects", partitionOf)
}

type key struct{ scope, id string }

// change is what a batch does to the table: it removes and starts what was there before, then adds what
// the batch opened and did not close.
type change struct {
	open   map[key]*row
	order  []key
	closed map[key]bool
	groups map[key]bool
	start  map[key]bool
	scopes map[string]bool
}

type row struct {
	projections.Event
	domain.Effect
	started bool
}

// Apply folds opens, starts and closes in the order of the log. Within one event closing comes first.
func (projector) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	c := change{open: map[key]*row{}, closed: map[key]bool{}, groups: map[key]bool{}, start: map[key]bool{}, scopes: map[string]bool{}}
	for e, err := range b.Events() {
		if err != nil {
			return err
		}
		c.fold(e)
	}
	if len(c.open)+len(c.closed)+len(c.groups)+len(c.start)+len(c.scopes) == 0 {
		return nil
	}
	b.Touch()
	c.store(b)
	return nil
}

func (c *change) fold(e projections.Event) {
	scope := string(e.Scope)
	if _, ok := e.Value.(domain.ClosesScope); ok {
		maps.DeleteFunc(c.open, func(k key, _ *row) bool { return k.scope == scope })
		c.scopes[scope] = true
	}
	if v, ok := e.Value.(domain.Closes); ok {
		for _, id := range v.Closes() {
			k := key{scope, projections.Text(id)}
			delete(c.open, k)
			c.closed[k] = true
		}
	}
	if v, ok := e.Value.(domain.ClosesGroup); ok && v.ClosesGroup() != "" {
		k := key{scope, projections.Text(v.ClosesGroup())}
		for id, r := range c.open {
			if id.scope == scope && projections.Text(r.Group) == k.id {
				delete(c.open, id)
				c.closed[id] = true // it may have been there before, too
			}
		}
		c.groups[k] = true
	}
	if v, ok := e.Value.(domain.Starts); ok {
		for _, id := range v.Starts() {
			k := key{scope, projections.Text(id)}
			if r := c.open[k]; r != nil {
				r.started = true
			} else if !c.closed[k] {
				c.start[k] = true
			}
		}
	}
	if v, ok := e.Value.(domain.Opens); ok {
		for _, effect := range v.Opens() {
			k := key{scope, projections.Text(effect.ID)}
			c.open[k] = &row{Event: e, Effect: effect}
			c.order = append(c.order, k)
		}
	}
}

func (c *change) store(b projections.Batch) {
	if len(c.scopes) > 0 {
		b.Queue(`DELETE FROM {open_effects} WHERE scope = ANY($1)`, slices.Collect(maps.Keys(c.scopes)))
	}
	if scopes, ids := pairs(c.closed); len(ids) > 0 {
		b.Queue(`DELETE FROM {open_effects} e USING unnest($1::text[], $2::text[]) AS k (scope, id)
			WHERE e.scope = k.scope AND e.id = k.id`, scopes, ids)
	}
	if scopes, groups := pairs(c.groups); len(groups) > 0 {
		b.Queue(`DELETE FROM {open_effects} e USING unnest($1::text[], $2::text[]) AS k (scope, grp)
			WHERE e.scope = k.scope AND e.grp = k.grp`, scopes, groups)
	}
	if scopes, ids := pairs(c.start); len(ids) > 0 {
		b.Queue(`UPDATE {open_effects} e SET started = true FROM unnest($1::text[], $2::text[]) AS k (scope, id)
			WHERE e.scope = k.scope AND e.id = k.id`, scopes, ids)
	}
	c.insert(b)
}

func pairs(set map[key]bool) (scopes, ids []string) {
	for k := range set {
		scopes, ids = append(scopes, k.scope), append(ids, k.id)
	}
	return scopes, ids
}

func (c *change) insert(b projections.Batch) {
	var (
		scopes, ids, streams, kinds, groups, devices, events, traces []string
		repeatable, started                                          []bool
		versions, positions, offsets                                 []int64
		eras, partitions                                             []int32
	)
	for _, k := range c.order {
		r := c.open[k]
		if r == nil {
			continue
		}
		delete(c.open, k) // opened twice in a batch: once is enough
		scopes, ids, streams = append(scopes, k.scope), append(ids, k.id), append(streams, string(r.Stream))
		kinds, groups, devices = append(kinds, r.Kind), append(groups, projections.Text(r.Group)), append(devices, projections.Text(r.Device))
		repeatable, started = append(repeatable, r.Repeatable), append(started, r.started)
		versions, positions, events = append(versions, int64(r.Version)), append(positions, int64(r.Position)), append(events, r.Event.ID)
		traces = append(traces, r.Trace)
		eras, partitions, offsets = append(eras, int32(r.Era)), append(partitions, r.Place.Partition), append(offsets, r.Place.Offset)
	}
	if len(ids) == 0 {
		return
	}
	args := []any{scopes, ids, streams, kinds, groups, devices, repeatable, started, versions, positions, events, eras, partitions, offsets}
	column, values, set := "", "", ""
	if b.Generation.Revision >= traced {
		column, values, set, args = ", trace", ", $15::text[]", ", trace = EXCLUDED.trace", append(args, traces)
	}
	b.Queue(`INSERT INTO {open_effects} (scope, id, stream, kind, grp, device, repeatable, started, version, position, event_id, era, partition, log_offset`+column+`)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bool[], $8::bool[],
			$9::bigint[], $10::bigint[], $11::text[], $12::int[], $13::int[], $14::bigint[]`+values+`)
		ON CONFLICT (scope, id) DO UPDATE SET stream = EXCLUDED.stream, kind = EXCLUDED.kind, grp = EXCLUDED.grp, device = EXCLUDED.device,
			repeatable = EXCLUDED.repeatable, started = EXCLUDED.started, version = EXCLUDED.version, position = EXCLUDED.position,
			event_id = EXCLUDED.event_id, era = EXCLUDED.era, partition = EXCLUDED.partition, log_offset = EXCLUDED.log_offset`+set, args...)
}
