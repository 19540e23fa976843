package runs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections"
)

// The revisions. Revision 2 has the agent in a column of its own, and an index to it.
const (
	before       = 1
	indexedSince = 2
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return newProjector(indexedSince) }

// Previous is the revision before, which is fed as long as a generation of it is there.
func (m *Model) Previous() projections.Projector { return newProjector(before) }

type projector struct {
	revision int
	table    *projections.Table[key, row]
}

func newProjector(revision int) projector { return projector{revision, table(revision)} }

func (projector) Name() string    { return Name }
func (p projector) Revision() int { return p.revision }
func (projector) Kinds() []string { return []string{"thread"} }

// Fills implements projections.Filler.
func (projector) Fills() {}

// key is a run as the table names it.
type key struct{ scope, run string }

type row struct {
	key
	Run
}

func table(revision int) *projections.Table[key, row] {
	t := &projections.Table[key, row]{
		Name: Name, Keys: 2,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(r *row) string { return r.scope }),
			projections.Col("run", func(r *row) string { return r.run }),
			projections.Col("thread", func(r *row) string { return projections.Text(r.Thread) }),
			projections.Col("version", func(r *row) int64 { return int64(r.MessageVersion) }),
			projections.Col("status", func(r *row) string { return string(r.Status) }),
			projections.Col("created_at", func(r *row) time.Time { return r.PostedAt }),
			projections.Col("record", (*row).record),
		},
		New:  func(k key) *row { return &row{key: k} },
		Key:  func(r *row) key { return r.key },
		Scan: scanRow,
		Size: func(r *row) int {
			return 1024 + 256*(len(r.Turns)+len(r.Warnings)) + 640*len(r.Calls) + 128*len(r.Mutations)
		},
	}
	if revision >= indexedSince {
		t.Columns = append(t.Columns, projections.Col("agent", func(r *row) string { return projections.Text(r.Agent) }))
	}
	return t
}

// record is the fold itself, as it is stored.
func (r *row) record() []byte {
	record, err := json.Marshal(r.Run)
	if err != nil {
		panic(err) // strings, numbers and times only: the engine names the event that brought another
	}
	return record
}

// scanRow reads a row of any revision: all is in the record.
func scanRow(found pgx.CollectableRow) (*row, error) {
	var r row
	var record []byte
	targets := make([]any, len(found.FieldDescriptions()))
	targets[0], targets[1], targets[6] = &r.scope, &r.run, &record
	err := found.Scan(targets...)
	if err == nil {
		r.Run, err = decode(record)
	}
	return &r, err
}

// Apply folds the batch's events into the runs they belong to.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	rows := p.table.Open(b)
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		if run := runOf(e.Value); run != "" {
			rows.Want(key{string(e.Scope), projections.Text(run)})
		}
	}
	if err := rows.Load(ctx, tx, b); err != nil {
		return err
	}
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		run := runOf(e.Value)
		if run == "" {
			continue
		}
		r := rows.At(key{string(e.Scope), projections.Text(run)})
		if r.ID == "" {
			r.ID, r.Thread = run, e.Stream.ID()
		}
		r.fold(e)
	}
	rows.Store(b)
	return nil
}
