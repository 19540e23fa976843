// Package devices is the read model of devices: what each said in its last hello. Whether one is online is
// presence, a work table, and not here; names stay sealed in their events.
package devices

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
)

// Name is the model's name.
const Name = "devices"

// Device is one row.
type Device struct {
	Scope        domain.Scope
	ID           string // without "device-"
	Protocol     int
	Timezone     string
	Journal      bool
	Batch        bool
	IntroducedAt time.Time // the first time
	UpdatedAt    time.Time
	Version      uint64 // of the event that holds the name
	Position     uint64 // of the same event
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

const fields = `scope, device, protocol, timezone, journal, batch, introduced_at, updated_at, version, position`

// List are the scope's devices, by id.
func (m *Model) List(ctx context.Context, scope domain.Scope) ([]Device, error) {
	return m.query(ctx, `SELECT `+fields+` FROM {devices} WHERE {live} AND scope = $1 ORDER BY device`, string(scope))
}

// Get answers ErrNotFound for a device that is not in the scope.
func (m *Model) Get(ctx context.Context, scope domain.Scope, id string) (Device, error) {
	found, err := m.query(ctx, `SELECT `+fields+` FROM {devices} WHERE {live} AND scope = $1 AND device = $2`, string(scope), projections.Text(id))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("devices: %s: %w", id, projections.ErrNotFound)
	}
	if err != nil {
		return Device{}, err
	}
	return found[0], nil
}

func (m *Model) query(ctx context.Context, sql string, args ...any) ([]Device, error) {
	found, err := projections.Rows(ctx, m.db, Name, sql, func(row pgx.CollectableRow) (Device, error) {
		var d Device
		var scope string
		var version, position int64
		err := row.Scan(&scope, &d.ID, &d.Protocol, &d.Timezone, &d.Journal, &d.Batch, &d.IntroducedAt, &d.UpdatedAt, &version, &position)
		d.Scope, d.Version, d.Position = domain.Scope(scope), uint64(version), uint64(position)
		d.IntroducedAt, d.UpdatedAt = d.IntroducedAt.UTC(), d.UpdatedAt.UTC()
		return d, err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return found, nil
}

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{} }

type projector struct{}

func (projector) Name() string  { return Name }
func (projector) Revision() int { return 1 }

// Apply keeps the last hello of each device, and the time of the first.
func (projector) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	var order []*Device
	rows := map[[2]string]*Device{}
	for e, err := range b.Events("device") {
		if err != nil {
			return err
		}
		var hello device.Introduced
		switch v := e.Value.(type) {
		case device.Introduced:
			hello = v
		case device.Seen: // presence is not here
			continue
		default:
			return &projections.EventError{Event: e.Recorded, Err: errors.New("no event of a device")}
		}
		key := [2]string{string(e.Scope), projections.Text(e.Stream.ID())}
		d := rows[key]
		if d == nil {
			d = &Device{Scope: e.Scope, ID: key[1], IntroducedAt: e.Time()}
			rows[key], order = d, append(order, d)
		}
		d.Protocol, d.Timezone, d.Journal, d.Batch = hello.Protocol, projections.Text(hello.Timezone), hello.Journal, hello.Batch
		d.UpdatedAt, d.Version, d.Position = e.Time(), e.Version, e.Position
	}
	if len(order) == 0 {
		return nil
	}
	b.Touch()
	for _, d := range order { // hellos are rare: a few rows
		b.Queue(`INSERT INTO {devices} (`+fields+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (scope, device) DO UPDATE SET protocol = EXCLUDED.protocol, timezone = EXCLUDED.timezone, journal = EXCLUDED.journal,
				batch = EXCLUDED.batch, updated_at = EXCLUDED.updated_at, version = EXCLUDED.version, position = EXCLUDED.position`,
			string(d.Scope), d.ID, d.Protocol, d.Timezone, d.Journal, d.Batch, d.IntroducedAt, d.UpdatedAt, int64(d.Version), int64(d.Position))
	}
	return nil
}
