package timers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{} }

type projector struct{}

func (projector) Name() string  { return Name }
func (projector) Revision() int { return 1 }

// Repartition implements projections.Repartitioner: only rows of partitions that are caught up are acted on.
func (projector) Repartition(ctx context.Context, tx pgx.Tx, partitionOf func(domain.Scope) int32) error {
	return projections.Repartition(ctx, tx, "timers", partitionOf)
}

type key struct{ scope, stream, id string }

type group struct{ scope, name string }

// change is what a batch does to the table: it removes what was there before, then adds what is set at its end.
type change struct {
	set    map[key]row
	order  []key
	clear  map[key]bool
	groups map[group]bool
	scopes map[string]bool
}

type row struct {
	event projections.Event
	group string
	due   time.Time
}

// Apply folds sets and clears in the order of the log. Within one event clearing comes first.
func (projector) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	c := change{set: map[key]row{}, clear: map[key]bool{}, groups: map[group]bool{}, scopes: map[string]bool{}}
	for e, err := range b.Events() {
		if err != nil {
			return err
		}
		c.fold(e)
	}
	if len(c.set)+len(c.clear)+len(c.groups)+len(c.scopes) == 0 {
		return nil
	}
	b.Touch()
	c.store(b)
	return nil
}

func (c *change) fold(e projections.Event) {
	scope, stream := string(e.Scope), string(e.Stream)
	if _, ok := e.Value.(domain.ClosesScope); ok {
		maps.DeleteFunc(c.set, func(k key, _ row) bool { return k.scope == scope })
		c.scopes[scope] = true
	}
	if v, ok := e.Value.(domain.Clears); ok {
		for _, id := range v.Clears() {
			k := key{scope, stream, projections.Text(id)}
			delete(c.set, k)
			c.clear[k] = true
		}
	}
	if v, ok := e.Value.(domain.ClosesGroup); ok && v.ClosesGroup() != "" {
		g := group{scope, projections.Text(v.ClosesGroup())}
		for k, r := range c.set {
			if k.scope == scope && r.group == g.name {
				delete(c.set, k)
				c.clear[k] = true // it may have been there before, in another group
			}
		}
		c.groups[g] = true
	}
	if v, ok := e.Value.(domain.Sets); ok {
		for _, t := range v.Sets() {
			k := key{scope, stream, projections.Text(t.ID)}
			c.set[k] = row{event: e, group: projections.Text(t.Group), due: e.Time().Add(t.After)}
			c.order = append(c.order, k)
		}
	}
}

func (c *change) store(b projections.Batch) {
	if len(c.scopes) > 0 {
		b.Queue(`DELETE FROM {timers} WHERE scope = ANY($1)`, slices.Collect(maps.Keys(c.scopes)))
	}
	if len(c.clear) > 0 {
		var scopes, streams, ids []string
		for k := range c.clear {
			scopes, streams, ids = append(scopes, k.scope), append(streams, k.stream), append(ids, k.id)
		}
		b.Queue(`DELETE FROM {timers} t USING unnest($1::text[], $2::text[], $3::text[]) AS k (scope, stream, id)
			WHERE t.scope = k.scope AND t.stream = k.stream AND t.id = k.id`, scopes, streams, ids)
	}
	if len(c.groups) > 0 {
		var scopes, names []string
		for g := range c.groups {
			scopes, names = append(scopes, g.scope), append(names, g.name)
		}
		b.Queue(`DELETE FROM {timers} t USING unnest($1::text[], $2::text[]) AS k (scope, grp)
			WHERE t.scope = k.scope AND t.grp = k.grp`, scopes, names)
	}
	c.insert(b)
}

func (c *change) insert(b projections.Batch) {
	var (
		scopes, streams, ids, groups []string
		dues                         []time.Time
		positions, offsets           []int64
		eras, partitions             []int32
	)
	for _, k := range c.order {
		r, ok := c.set[k]
		if !ok {
			continue
		}
		delete(c.set, k) // set twice in a batch: the last counts, once
		scopes, streams, ids, groups = append(scopes, k.scope), append(streams, k.stream), append(ids, k.id), append(groups, r.group)
		dues, positions = append(dues, r.due), append(positions, int64(r.event.Position))
		eras, partitions, offsets = append(eras, int32(r.event.Era)), append(partitions, r.event.Place.Partition), append(offsets, r.event.Place.Offset)
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(`INSERT INTO {timers} (scope, stream, id, grp, due, position, era, partition, log_offset)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::int[], $8::int[], $9::bigint[])
		ON CONFLICT (scope, stream, id) DO UPDATE SET grp = EXCLUDED.grp, due = EXCLUDED.due, position = EXCLUDED.position,
			era = EXCLUDED.era, partition = EXCLUDED.partition, log_offset = EXCLUDED.log_offset`,
		scopes, streams, ids, groups, dues, positions, eras, partitions, offsets)
}
