// Package threads is the read model of threads: when they lived, how long they are, what is active in them.
// Titles stay sealed in their events; a row names the place.
package threads

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// Name is the model's name.
const Name = "threads"

// Thread is one row.
type Thread struct {
	Scope        domain.Scope
	ID           string // without "thread-"
	CreatedAt    time.Time
	LastActivity time.Time
	Messages     uint64 // of people
	ActiveRun    string // empty: none
	Head         uint64 // newest version of the stream
	// TitleVersion and TitlePosition are the place of the event that holds the title; 0: no title.
	TitleVersion  uint64
	TitlePosition uint64
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

const fields = `scope, thread, created_at, last_activity, messages, active_run, head, title_version, title_position`

// Get answers ErrNotFound for a thread that is not in the scope.
func (m *Model) Get(ctx context.Context, scope domain.Scope, id string) (Thread, error) {
	rows, err := projections.Rows(ctx, m.db, Name, `SELECT `+fields+` FROM {threads} WHERE {live} AND scope = $1 AND thread = $2`, scan,
		string(scope), projections.Text(id))
	if err != nil {
		return Thread{}, fmt.Errorf("threads: get: %w", err)
	}
	if len(rows) == 0 {
		return Thread{}, fmt.Errorf("threads: %s: %w", id, projections.ErrNotFound)
	}
	return rows[0], nil
}

// ErrCursor is a text that is no cursor of List.
var ErrCursor = errors.New("malformed cursor")

type cursor struct {
	Activity time.Time `json:"a"`
	Thread   string    `json:"t"`
}

// List are the scope's threads, the most recently active first, at most limit. The cursor of the first page
// is empty; next is empty on the last page.
func (m *Model) List(ctx context.Context, scope domain.Scope, after string, limit int) (page []Thread, next string, err error) {
	// A first page is one before the end of time: one condition for all pages, so that every plan goes by the index.
	from := cursor{Activity: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	if after != "" {
		raw, err := base64.RawURLEncoding.DecodeString(after)
		if err != nil || json.Unmarshal(raw, &from) != nil {
			return nil, "", ErrCursor
		}
	}
	limit = max(limit, 1)
	page, err = projections.Rows(ctx, m.db, Name, `SELECT `+fields+` FROM {threads}
		WHERE {live} AND scope = $1 AND (last_activity, thread) < ($2, $3)
		ORDER BY last_activity DESC, thread DESC LIMIT $4`, scan, string(scope), from.Activity, projections.Text(from.Thread), limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("threads: list: %w", err)
	}
	if len(page) <= limit {
		return page, "", nil
	}
	page = page[:limit]
	last, err := json.Marshal(cursor{Activity: page[limit-1].LastActivity, Thread: page[limit-1].ID})
	return page, base64.RawURLEncoding.EncodeToString(last), err
}

func scan(row pgx.CollectableRow) (Thread, error) {
	var (
		t                                         Thread
		scope                                     string
		active                                    *string
		messages, head, titleVersion, titlePlaces int64
	)
	err := row.Scan(&scope, &t.ID, &t.CreatedAt, &t.LastActivity, &messages, &active, &head, &titleVersion, &titlePlaces)
	t.Scope = domain.Scope(scope)
	t.CreatedAt, t.LastActivity = t.CreatedAt.UTC(), t.LastActivity.UTC()
	t.Messages, t.Head, t.TitleVersion, t.TitlePosition = uint64(messages), uint64(head), uint64(titleVersion), uint64(titlePlaces)
	if active != nil {
		t.ActiveRun = *active
	}
	return t, err
}
