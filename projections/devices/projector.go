package devices

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Table[key, Device]
}

func (projector) Name() string    { return Name }
func (projector) Revision() int   { return 1 }
func (projector) Kinds() []string { return []string{"device"} }

// Fills implements projections.Filler.
func (projector) Fills() {}

// key is a device as the table names it.
type key struct{ scope, device string }

func table() *projections.Table[key, Device] {
	return &projections.Table[key, Device]{
		Name: Name, Keys: 2,
		Columns: []projections.Column[Device]{
			projections.Col("scope", func(d *Device) string { return string(d.Scope) }),
			projections.Col("device", func(d *Device) string { return d.ID }),
			projections.Col("protocol", func(d *Device) int32 { return int32(d.Protocol) }),
			projections.Col("timezone", func(d *Device) string { return d.Timezone }),
			projections.Col("journal", func(d *Device) bool { return d.Journal }),
			projections.Col("batch", func(d *Device) bool { return d.Batch }),
			projections.Col("introduced_at", func(d *Device) time.Time { return d.IntroducedAt }),
			projections.Col("updated_at", func(d *Device) time.Time { return d.UpdatedAt }),
			projections.Col("version", func(d *Device) int64 { return int64(d.Version) }),
			projections.Col("position", func(d *Device) int64 { return int64(d.Position) }),
		},
		New: func(k key) *Device { return &Device{Scope: domain.Scope(k.scope), ID: k.device} },
		Key: func(d *Device) key { return key{string(d.Scope), d.ID} },
		Scan: func(r pgx.CollectableRow) (*Device, error) {
			d, err := scan(r)
			return &d, err
		},
	}
}

// Apply keeps the last hello of each device, and the time of the first.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	rows := p.table.Open(b)
	for e, err := range b.Events("device") {
		if err != nil {
			return err
		}
		switch e.Value.(type) {
		case device.Introduced:
			rows.Want(keyOf(e))
		case device.Seen: // presence is not here
		case device.DataRequested, device.MutationRequested, device.RequestOffered, device.DataAnswered, device.DataFailed,
			device.MutationCompleted, device.MutationFailed, device.LateAnswerRecorded: // they are in projections/requests
		default:
			return &projections.EventError{Event: e.Recorded, Err: errors.New("no event of a device")}
		}
	}
	if err := rows.Load(ctx, tx, b); err != nil {
		return err
	}
	for e, err := range b.Events("device") {
		if err != nil {
			return err
		}
		hello, ok := e.Value.(device.Introduced)
		if !ok {
			continue
		}
		d := rows.At(keyOf(e))
		if d.Version == 0 {
			d.IntroducedAt = e.Time()
		}
		d.Protocol, d.Timezone, d.Journal, d.Batch = hello.Protocol, projections.Text(hello.Timezone), hello.Journal, hello.Batch
		d.UpdatedAt, d.Version, d.Position = e.Time(), e.Version, e.Position
	}
	rows.Store(b)
	return nil
}

func keyOf(e projections.Event) key {
	return key{string(e.Scope), projections.Text(e.Stream.ID())}
}
