package timers

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Table[key, row]
}

func (projector) Name() string  { return Name }
func (projector) Revision() int { return 1 }

// Fills implements projections.Filler.
func (projector) Fills() {}

// Repartition implements projections.Repartitioner: only rows of partitions that are caught up are acted on.
func (projector) Repartition(ctx context.Context, tx pgx.Tx, partitionOf func(domain.Scope) int32) error {
	return projections.Repartition(ctx, tx, "timers", partitionOf)
}

// key is a timer as the table names it.
type key struct{ scope, stream, id string }

type row struct {
	key
	group          string
	due            time.Time
	position       int64
	era, partition int32
	offset         int64
}

func table() *projections.Table[key, row] {
	return &projections.Table[key, row]{
		Name: Name, Keys: 3,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(r *row) string { return r.scope }),
			projections.Col("stream", func(r *row) string { return r.stream }),
			projections.Col("id", func(r *row) string { return r.id }),
			projections.Col("grp", func(r *row) string { return r.group }),
			projections.Col("due", func(r *row) time.Time { return r.due }),
			projections.Col("position", func(r *row) int64 { return r.position }),
			projections.Col("era", func(r *row) int32 { return r.era }),
			projections.Col("partition", func(r *row) int32 { return r.partition }),
			projections.Col("log_offset", func(r *row) int64 { return r.offset }),
		},
		New:   func(k key) *row { return &row{key: k} },
		Key:   func(r *row) key { return r.key },
		Scope: func(k key) string { return k.scope },
		Size:  func(*row) int { return 384 },
		Scan: func(found pgx.CollectableRow) (*row, error) {
			var r row
			err := found.Scan(&r.scope, &r.stream, &r.id, &r.group, &r.due, &r.position, &r.era, &r.partition, &r.offset)
			return &r, err
		},
	}
}

// Apply folds sets and clears in the order of the log. Within one event clearing comes first.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	var touched concerned
	for e, err := range b.Events() {
		if err != nil {
			return err
		}
		touched.add(e)
	}
	if touched.nothing() {
		return nil
	}
	rows := p.table.Open(b)
	if err := touched.find(ctx, tx, b, rows); err != nil {
		return err
	}
	for e, err := range b.Events() {
		if err != nil {
			return err
		}
		fold(rows, e)
	}
	rows.Store(b)
	return nil
}

// concerned are the rows that a batch may change: timers by their keys, those of groups, those of scopes.
type concerned struct {
	keyScopes, streams, ids []string
	groupScopes, groups     []string
	scopes                  []string
}

func (c *concerned) add(e projections.Event) {
	scope := string(e.Scope)
	timer := func(id string) {
		c.keyScopes, c.streams, c.ids = append(c.keyScopes, scope), append(c.streams, string(e.Stream)), append(c.ids, projections.Text(id))
	}
	if _, ok := e.Value.(domain.ClosesScope); ok {
		c.scopes = append(c.scopes, scope)
	}
	if v, ok := e.Value.(domain.Clears); ok {
		for _, id := range v.Clears() {
			timer(id)
		}
	}
	if v, ok := e.Value.(domain.ClosesGroup); ok && v.ClosesGroup() != "" {
		c.groupScopes, c.groups = append(c.groupScopes, scope), append(c.groups, projections.Text(v.ClosesGroup()))
	}
	if v, ok := e.Value.(domain.Sets); ok {
		for _, t := range v.Sets() {
			timer(t.ID)
		}
	}
}

func (c *concerned) nothing() bool { return len(c.ids)+len(c.groups)+len(c.scopes) == 0 }

func (c *concerned) find(ctx context.Context, tx pgx.Tx, b projections.Batch, rows *projections.Fold[key, row]) error {
	return rows.Find(ctx, tx, b, []string{
		`JOIN unnest($1::text[], $2::text[], $3::text[]) AS k (scope, stream, id) ON r.scope = k.scope AND r.stream = k.stream AND r.id = k.id`,
		`JOIN unnest($4::text[], $5::text[]) AS k (scope, grp) ON r.scope = k.scope AND r.grp = k.grp`,
		`JOIN unnest($6::text[]) AS k (scope) ON r.scope = k.scope`,
	}, c.keyScopes, c.streams, c.ids, c.groupScopes, c.groups, c.scopes)
}

func fold(rows *projections.Fold[key, row], e projections.Event) {
	scope := string(e.Scope)
	if _, ok := e.Value.(domain.ClosesScope); ok {
		rows.In(scope, func(k key, _ *row) { rows.Delete(k) })
	}
	if v, ok := e.Value.(domain.Clears); ok {
		for _, id := range v.Clears() {
			rows.Delete(key{scope, string(e.Stream), projections.Text(id)})
		}
	}
	if v, ok := e.Value.(domain.ClosesGroup); ok && v.ClosesGroup() != "" {
		group := projections.Text(v.ClosesGroup())
		rows.In(scope, func(k key, r *row) {
			if r.group == group {
				rows.Delete(k)
			}
		})
	}
	if v, ok := e.Value.(domain.Sets); ok {
		for _, t := range v.Sets() {
			rows.Put(&row{
				key: key{scope, string(e.Stream), projections.Text(t.ID)}, group: projections.Text(t.Group), due: e.Time().Add(t.After),
				position: int64(e.Position), era: int32(e.Era), partition: e.Place.Partition, offset: e.Place.Offset,
			})
		}
	}
}
