package erasures

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Table[string, row]
}

func (projector) Name() string    { return Name }
func (projector) Revision() int   { return 1 }
func (projector) Kinds() []string { return []string{"account"} }

// Fills implements projections.Filler.
func (projector) Fills() {}

type row struct {
	scope     string
	erasedAt  time.Time
	position  int64
	partition int32
	offset    int64
}

func table() *projections.Table[string, row] {
	return &projections.Table[string, row]{
		Name: Name, Keys: 1,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(r *row) string { return r.scope }),
			projections.Col("erased_at", func(r *row) time.Time { return r.erasedAt }),
			projections.Col("position", func(r *row) int64 { return r.position }),
			projections.Col("partition", func(r *row) int32 { return r.partition }),
			projections.Col("log_offset", func(r *row) int64 { return r.offset }),
		},
		New: func(scope string) *row { return &row{scope: scope} },
		Key: func(r *row) string { return r.scope },
		Scan: func(found pgx.CollectableRow) (*row, error) {
			var r row
			err := found.Scan(&r.scope, &r.erasedAt, &r.position, &r.partition, &r.offset)
			return &r, err
		},
	}
}

// Apply notes the scopes that the batch erases. The first time counts.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	rows := p.table.Open(b)
	for e, err := range b.Events("account") {
		if err != nil {
			return err
		}
		if _, ok := e.Value.(account.Erased); ok {
			rows.Want(string(e.Scope))
		}
	}
	if err := rows.Load(ctx, tx, b); err != nil {
		return err
	}
	for e, err := range b.Events("account") {
		if err != nil {
			return err
		}
		if _, ok := e.Value.(account.Erased); !ok || rows.Get(string(e.Scope)) != nil {
			continue
		}
		rows.Put(&row{
			scope: string(e.Scope), erasedAt: e.Time(), position: int64(e.Position), partition: e.Place.Partition, offset: e.Place.Offset,
		})
	}
	rows.Store(b)
	return nil
}
