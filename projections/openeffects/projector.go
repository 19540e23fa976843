package openeffects

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// traced is the revision since which the table has the traces of intents.
const traced = 2

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return newProjector(traced) }

// Previous fills the table of the revision before, where that is still read.
func (m *Model) Previous() projections.Projector { return newProjector(traced - 1) }

type projector struct {
	revision int
	table    *projections.Table[key, row]
}

func newProjector(revision int) projector { return projector{revision, table(revision)} }

func (projector) Name() string    { return Name }
func (p projector) Revision() int { return p.revision }

// Fills implements projections.Filler.
func (projector) Fills() {}

// Repartition implements projections.Repartitioner: only rows of partitions that are caught up are acted on.
func (projector) Repartition(ctx context.Context, tx pgx.Tx, partitionOf func(domain.Scope) int32) error {
	return projections.Repartition(ctx, tx, "open_effects", partitionOf)
}

// key is an effect as the table names it.
type key struct{ scope, id string }

type row struct {
	key
	stream, kind, group, device string
	repeatable, started         bool
	version, position           int64
	event, trace                string
	era, partition              int32
	offset                      int64
}

func table(revision int) *projections.Table[key, row] {
	t := &projections.Table[key, row]{
		Name: Name, Keys: 2,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(r *row) string { return r.scope }),
			projections.Col("id", func(r *row) string { return r.id }),
			projections.Col("stream", func(r *row) string { return r.stream }),
			projections.Col("kind", func(r *row) string { return r.kind }),
			projections.Col("grp", func(r *row) string { return r.group }),
			projections.Col("device", func(r *row) string { return r.device }),
			projections.Col("repeatable", func(r *row) bool { return r.repeatable }),
			projections.Col("started", func(r *row) bool { return r.started }),
			projections.Col("version", func(r *row) int64 { return r.version }),
			projections.Col("position", func(r *row) int64 { return r.position }),
			projections.Col("event_id", func(r *row) string { return r.event }),
			projections.Col("era", func(r *row) int32 { return r.era }),
			projections.Col("partition", func(r *row) int32 { return r.partition }),
			projections.Col("log_offset", func(r *row) int64 { return r.offset }),
		},
		New:   func(k key) *row { return &row{key: k} },
		Key:   func(r *row) key { return r.key },
		Scope: func(k key) string { return k.scope },
		Size:  func(*row) int { return 512 },
		Scan: func(found pgx.CollectableRow) (*row, error) {
			var r row
			targets := []any{
				&r.scope, &r.id, &r.stream, &r.kind, &r.group, &r.device, &r.repeatable, &r.started, &r.version, &r.position,
				&r.event, &r.era, &r.partition, &r.offset, &r.trace,
			}
			err := found.Scan(targets[:len(found.FieldDescriptions())]...)
			return &r, err
		},
	}
	if revision >= traced {
		t.Columns = append(t.Columns, projections.Col("trace", func(r *row) string { return r.trace }))
	}
	return t
}

// Apply folds opens, starts and closes in the order of the log. Within one event closing comes first.
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

// concerned are the rows that a batch may change: effects by their ids, those of groups, those of scopes.
type concerned struct {
	idScopes, ids       []string
	groupScopes, groups []string
	scopes              []string
}

func (c *concerned) add(e projections.Event) {
	scope := string(e.Scope)
	id := func(id string) { c.idScopes, c.ids = append(c.idScopes, scope), append(c.ids, projections.Text(id)) }
	if _, ok := e.Value.(domain.ClosesScope); ok {
		c.scopes = append(c.scopes, scope)
	}
	if v, ok := e.Value.(domain.Closes); ok {
		for _, closed := range v.Closes() {
			id(closed)
		}
	}
	if v, ok := e.Value.(domain.ClosesGroup); ok && v.ClosesGroup() != "" {
		c.groupScopes, c.groups = append(c.groupScopes, scope), append(c.groups, projections.Text(v.ClosesGroup()))
	}
	if v, ok := e.Value.(domain.Starts); ok {
		for _, started := range v.Starts() {
			id(started)
		}
	}
	if v, ok := e.Value.(domain.Opens); ok {
		for _, effect := range v.Opens() {
			id(effect.ID)
		}
	}
}

func (c *concerned) nothing() bool { return len(c.ids)+len(c.groups)+len(c.scopes) == 0 }

func (c *concerned) find(ctx context.Context, tx pgx.Tx, b projections.Batch, rows *projections.Fold[key, row]) error {
	return rows.Find(ctx, tx, b, []string{
		`JOIN unnest($1::text[], $2::text[]) AS k (scope, id) ON r.scope = k.scope AND r.id = k.id`,
		`JOIN unnest($3::text[], $4::text[]) AS k (scope, grp) ON r.scope = k.scope AND r.grp = k.grp`,
		`JOIN unnest($5::text[]) AS k (scope) ON r.scope = k.scope`,
	}, c.idScopes, c.ids, c.groupScopes, c.groups, c.scopes)
}

func fold(rows *projections.Fold[key, row], e projections.Event) {
	scope := string(e.Scope)
	if _, ok := e.Value.(domain.ClosesScope); ok {
		rows.In(scope, func(k key, _ *row) { rows.Delete(k) })
	}
	if v, ok := e.Value.(domain.Closes); ok {
		for _, id := range v.Closes() {
			rows.Delete(key{scope, projections.Text(id)})
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
	if v, ok := e.Value.(domain.Starts); ok {
		for _, id := range v.Starts() {
			if k := (key{scope, projections.Text(id)}); rows.Get(k) != nil {
				rows.At(k).started = true
			}
		}
	}
	if v, ok := e.Value.(domain.Opens); ok {
		for _, effect := range v.Opens() {
			rows.Put(&row{
				key: key{scope, projections.Text(effect.ID)}, stream: string(e.Stream), kind: effect.Kind,
				group: projections.Text(effect.Group), device: projections.Text(effect.Device), repeatable: effect.Repeatable,
				version: int64(e.Version), position: int64(e.Position), event: e.ID, trace: e.Trace,
				era: int32(e.Era), partition: e.Place.Partition, offset: e.Place.Offset,
			})
		}
	}
}
