// Package devices is the read model of devices: what each said in its last hello. Whether one is online is
// presence, a work table, and not here; names stay sealed in their events.
package devices

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
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
	found, err := projections.Rows(ctx, m.db, Name, sql, scan, args...)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return found, nil
}

func scan(row pgx.CollectableRow) (Device, error) {
	var d Device
	var scope string
	var version, position int64
	err := row.Scan(&scope, &d.ID, &d.Protocol, &d.Timezone, &d.Journal, &d.Batch, &d.IntroducedAt, &d.UpdatedAt, &version, &position)
	d.Scope, d.Version, d.Position = domain.Scope(scope), uint64(version), uint64(position)
	d.IntroducedAt, d.UpdatedAt = d.IntroducedAt.UTC(), d.UpdatedAt.UTC()
	return d, err
}
