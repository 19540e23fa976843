// Package requests is the read model of what devices are asked outside runs, and of what became of it. What a request
// holds and what was answered stays sealed in the events; a row names their places. It is not the list of what is to be
// done: that is open effects.
package requests

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// Name is the model's name.
const Name = "device_requests"

// Kind is what sort of request it is.
type Kind string

// The kinds.
const (
	Data     Kind = "data"     // rows are asked for
	Mutation Kind = "mutation" // a write that somebody approved
)

// Status is where a request is.
type Status string

// The statuses. The last two are for ever.
const (
	Waiting   Status = "waiting" // for its device
	Offered   Status = "offered" // its device has it
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Ended reports whether the request has its outcome.
func (s Status) Ended() bool { return s == Completed || s == Failed }

// Request is one row.
type Request struct {
	Scope       domain.Scope
	ID          string
	Device      string // without "device-"
	Kind        Kind
	Action      string
	Table       string // empty: the action has none
	Status      Status
	Reason      string // of a failure
	RequestedAt time.Time
	WaitUntil   time.Time // for the device to come
	OfferedAt   *time.Time
	EndedAt     *time.Time
	Position    uint64 // of the event that asked
	// RequestVersion and ResultVersion are the events that hold what was asked and answered, LateVersion the last answer that
	// came after the outcome. 0: there is none.
	RequestVersion uint64
	ResultVersion  uint64
	LateVersion    uint64
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

const fields = `scope, id, device, kind, action, target, status, reason, requested_at, wait_until, offered_at, ended_at, position,
	request_version, result_version, late_version`

// Get answers ErrNotFound for a request that is not in the scope.
func (m *Model) Get(ctx context.Context, scope domain.Scope, id string) (Request, error) {
	found, err := m.query(ctx, `SELECT `+fields+` FROM {device_requests} WHERE {live} AND scope = $1 AND id = $2`, string(scope), projections.Text(id))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("device requests: %s: %w", id, projections.ErrNotFound)
	}
	if err != nil {
		return Request{}, err
	}
	return found[0], nil
}

// ByDevice are the requests of a kind to a device, the newest first, at most limit: those before a position, 0 being the end.
func (m *Model) ByDevice(ctx context.Context, scope domain.Scope, device string, kind Kind, before uint64, limit int) ([]Request, error) {
	last := int64(math.MaxInt64) // one condition for all pages, so that every plan goes by the index
	if before > 0 && before < math.MaxInt64 {
		last = int64(before)
	}
	return m.query(ctx, `SELECT `+fields+` FROM {device_requests}
		WHERE {live} AND scope = $1 AND device = $2 AND kind = $3 AND position < $4 ORDER BY position DESC LIMIT $5`,
		string(scope), projections.Text(device), string(kind), last, limit)
}

func (m *Model) query(ctx context.Context, sql string, args ...any) ([]Request, error) {
	found, err := projections.Rows(ctx, m.db, Name, sql, scan, args...)
	if err != nil {
		return nil, fmt.Errorf("device requests: %w", err)
	}
	return found, nil
}

func scan(row pgx.CollectableRow) (Request, error) {
	var (
		r                               Request
		scope, kind, status             string
		position, asked, answered, late int64
	)
	err := row.Scan(&scope, &r.ID, &r.Device, &kind, &r.Action, &r.Table, &status, &r.Reason, &r.RequestedAt, &r.WaitUntil, &r.OfferedAt, &r.EndedAt,
		&position, &asked, &answered, &late)
	r.Scope, r.Kind, r.Status = domain.Scope(scope), Kind(kind), Status(status)
	r.RequestedAt, r.WaitUntil, r.OfferedAt, r.EndedAt = r.RequestedAt.UTC(), r.WaitUntil.UTC(), utc(r.OfferedAt), utc(r.EndedAt)
	r.Position, r.RequestVersion, r.ResultVersion, r.LateVersion = uint64(position), uint64(asked), uint64(answered), uint64(late)
	return r, err
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	in := t.UTC()
	return &in
}
