package requests

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Table[key, Request]
}

func (projector) Name() string    { return Name }
func (projector) Revision() int   { return 1 }
func (projector) Kinds() []string { return []string{"device"} }

// Fills implements projections.Filler.
func (projector) Fills() {}

// key is a request as the table names it.
type key struct{ scope, id string }

func table() *projections.Table[key, Request] {
	type row = Request
	return &projections.Table[key, row]{
		Name: Name, Keys: 2,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(r *row) string { return string(r.Scope) }),
			projections.Col("id", func(r *row) string { return r.ID }),
			projections.Col("device", func(r *row) string { return r.Device }),
			projections.Col("kind", func(r *row) string { return string(r.Kind) }),
			projections.Col("action", func(r *row) string { return r.Action }),
			projections.Col("target", func(r *row) string { return r.Table }),
			projections.Col("status", func(r *row) string { return string(r.Status) }),
			projections.Col("reason", func(r *row) string { return r.Reason }),
			projections.Col("requested_at", func(r *row) time.Time { return r.RequestedAt }),
			projections.Col("wait_until", func(r *row) time.Time { return r.WaitUntil }),
			projections.Col("offered_at", func(r *row) *time.Time { return r.OfferedAt }),
			projections.Col("ended_at", func(r *row) *time.Time { return r.EndedAt }),
			projections.Col("position", func(r *row) int64 { return int64(r.Position) }),
			projections.Col("request_version", func(r *row) int64 { return int64(r.RequestVersion) }),
			projections.Col("result_version", func(r *row) int64 { return int64(r.ResultVersion) }),
			projections.Col("late_version", func(r *row) int64 { return int64(r.LateVersion) }),
		},
		New: func(k key) *row { return &row{Scope: domain.Scope(k.scope), ID: k.id} },
		Key: func(r *row) key { return key{string(r.Scope), r.ID} },
		Scan: func(found pgx.CollectableRow) (*row, error) {
			r, err := scan(found)
			return &r, err
		},
		Size: func(r *row) int { return 384 + len(r.Scope) + len(r.ID) + len(r.Device) },
	}
}

// Apply folds the batch's events into the requests they concern.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	rows := p.table.Open(b)
	for e, err := range b.Events("device") {
		if err != nil {
			return err
		}
		if id := requestOf(e.Value); id != "" {
			rows.Want(keyOf(e, id))
		}
	}
	if err := rows.Load(ctx, tx, b); err != nil {
		return err
	}
	for e, err := range b.Events("device") {
		if err != nil {
			return err
		}
		fold(rows, e)
	}
	rows.Store(b)
	return nil
}

// requestOf is the request that an event is about; empty: none.
func requestOf(event any) string {
	switch v := event.(type) {
	case device.DataRequested:
		return v.RequestID
	case device.MutationRequested:
		return v.RequestID
	case device.RequestOffered:
		return v.RequestID
	case device.DataAnswered:
		return v.RequestID
	case device.DataFailed:
		return v.RequestID
	case device.MutationCompleted:
		return v.RequestID
	case device.MutationFailed:
		return v.RequestID
	case device.LateAnswerRecorded:
		return v.RequestID
	}
	return ""
}

func keyOf(e projections.Event, id string) key {
	return key{string(e.Scope), projections.Text(id)}
}

func fold(rows *projections.Fold[key, Request], e projections.Event) {
	k := keyOf(e, requestOf(e.Value))
	switch v := e.Value.(type) {
	case device.DataRequested:
		rows.Put(asked(k, e, Data, v.Request))
		return
	case device.MutationRequested:
		rows.Put(asked(k, e, Mutation, v.Request))
		return
	}
	if k.id == "" || rows.Get(k) == nil {
		return
	}
	at := e.Time()
	switch v := e.Value.(type) {
	case device.RequestOffered:
		r := rows.At(k)
		r.Status, r.OfferedAt = Offered, &at
	case device.DataAnswered, device.MutationCompleted:
		rows.At(k).end(Completed, "", at, e.Version)
	case device.DataFailed:
		rows.At(k).end(Failed, v.Reason, at, e.Version)
	case device.MutationFailed:
		rows.At(k).end(Failed, v.Reason, at, e.Version)
	case device.LateAnswerRecorded:
		rows.At(k).LateVersion = e.Version
	}
}

func asked(k key, e projections.Event, kind Kind, r device.Request) *Request {
	at := e.Time()
	return &Request{
		Scope: e.Scope, ID: k.id, Device: projections.Text(e.Stream.ID()), Kind: kind, Action: projections.Text(r.Action), Table: projections.Text(r.Table),
		Status: Waiting, RequestedAt: at, WaitUntil: at.Add(r.Wait), Position: e.Position, RequestVersion: e.Version,
	}
}

func (r *Request) end(status Status, reason device.FailureReason, at time.Time, version uint64) {
	r.Status, r.Reason, r.EndedAt, r.ResultVersion = status, projections.Text(string(reason)), &at, version
}
