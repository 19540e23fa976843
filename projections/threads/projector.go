package threads

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
)

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Table[key, Thread]
}

func (projector) Name() string    { return Name }
func (projector) Revision() int   { return 1 }
func (projector) Kinds() []string { return []string{"thread"} }

// Fills implements projections.Filler.
func (projector) Fills() {}

// key is a thread as the table names it.
type key struct{ scope, thread string }

func table() *projections.Table[key, Thread] {
	type row = Thread
	return &projections.Table[key, row]{
		Name: Name, Keys: 2,
		Columns: []projections.Column[row]{
			projections.Col("scope", func(t *row) string { return string(t.Scope) }),
			projections.Col("thread", func(t *row) string { return t.ID }),
			projections.Col("created_at", func(t *row) time.Time { return t.CreatedAt }),
			projections.Col("last_activity", func(t *row) time.Time { return t.LastActivity }),
			projections.Col("messages", func(t *row) int64 { return int64(t.Messages) }),
			projections.Col("active_run", (*row).active),
			projections.Col("head", func(t *row) int64 { return int64(t.Head) }),
			projections.Col("title_version", func(t *row) int64 { return int64(t.TitleVersion) }),
			projections.Col("title_position", func(t *row) int64 { return int64(t.TitlePosition) }),
		},
		New: func(k key) *row { return &row{Scope: domain.Scope(k.scope), ID: k.thread} },
		Key: func(t *row) key { return key{string(t.Scope), t.ID} },
		Scan: func(r pgx.CollectableRow) (*row, error) {
			t, err := scan(r)
			return &t, err
		},
		Size: func(t *row) int { return 256 + len(t.Scope) + len(t.ID) + len(t.ActiveRun) },
	}
}

// active is the active run as the table has it.
func (t *Thread) active() *string {
	if t.ActiveRun == "" {
		return nil
	}
	run := projections.Text(t.ActiveRun)
	return &run
}

// Apply folds the batch's events into the rows they concern.
func (p projector) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	rows := p.table.Open(b)
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		rows.Want(keyOf(e))
	}
	if err := rows.Load(ctx, tx, b); err != nil {
		return err
	}
	for e, err := range b.Events("thread") {
		if err != nil {
			return err
		}
		rows.At(keyOf(e)).fold(e)
	}
	rows.Store(b)
	return nil
}

func keyOf(e projections.Event) key {
	return key{string(e.Scope), projections.Text(e.Stream.ID())}
}

func (t *Thread) fold(e projections.Event) {
	if t.Head == 0 {
		t.CreatedAt = e.Time()
	}
	t.LastActivity, t.Head = e.Time(), e.Version
	switch v := e.Value.(type) {
	case thread.MessagePosted:
		t.Messages++
	case thread.RunStarted:
		t.ActiveRun = v.RunID
	case thread.RunCompleted:
		t.end(v.RunID)
	case thread.RunFailed:
		t.end(v.RunID)
	case thread.RunCancelled:
		t.end(v.RunID)
	case thread.Titled:
		t.TitleVersion, t.TitlePosition = e.Version, e.Position
	}
}

// end leaves the active run alone where a queued one was cancelled.
func (t *Thread) end(run string) {
	if projections.Text(t.ActiveRun) == projections.Text(run) {
		t.ActiveRun = ""
	}
}
