// Package runs is the read model of runs: what each did, in ids, counts, statuses and times, with its turns
// and tool calls. Arguments, results and texts stay sealed in the events that a row names by version.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
)

// Name is the model's name.
const Name = "runs"

// Status is where a run stands.
type Status string

// The statuses. Waiting is a run with an open device call that was not offered to its device yet.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether the run will change no more (but for late results and indexing).
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Run is one run.
type Run struct {
	ID       string         `json:"id"`
	Thread   string         `json:"thread"` // without "thread-"
	Channel  thread.Channel `json:"channel"`
	Status   Status         `json:"status"`
	Agent    string         `json:"agent,omitempty"`
	Device   string         `json:"device,omitempty"`
	Timezone string         `json:"timezone,omitempty"`
	Focus    *thread.Focus  `json:"focus,omitempty"`
	Route    *Route         `json:"route,omitempty"`

	PostedAt  time.Time  `json:"posted_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`

	Turns        []Turn            `json:"turns,omitempty"`
	Calls        []Call            `json:"calls,omitempty"`
	Attempts     int               `json:"attempts,omitempty"` // of the model, over all turns
	InputTokens  int               `json:"input_tokens,omitempty"`
	OutputTokens int               `json:"output_tokens,omitempty"`
	Warnings     []string          `json:"warnings,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"` // what the model said of itself, the last turn's
	Mutations    []thread.Mutation `json:"mutations,omitempty"`
	LateResults  int               `json:"late_results,omitempty"`
	Error        *Error            `json:"error,omitempty"`
	CancelledBy  string            `json:"cancelled_by,omitempty"`

	MessageVersion uint64 `json:"message_version"`          // of the message it answers
	StartVersion   uint64 `json:"start_version,omitempty"`  // of run_started
	EndVersion     uint64 `json:"end_version,omitempty"`    // of its last event; 0: it has not ended
	AnswerVersion  uint64 `json:"answer_version,omitempty"` // of the turn that holds the final text
}

// Error is why a run failed.
type Error struct {
	Code   thread.FailureClass `json:"code"`
	Reason string              `json:"reason"`
}

// Route is how the agent was chosen.
type Route struct {
	Attempts    int        `json:"attempts"`
	Model       string     `json:"model,omitempty"`
	Fallback    bool       `json:"fallback,omitempty"`
	Failures    []Failure  `json:"failures,omitempty"`
	RequestedAt time.Time  `json:"requested_at"`
	DecidedAt   *time.Time `json:"decided_at,omitempty"`
}

// Failure is an attempt that failed. Its words stay sealed in the event.
type Failure struct {
	Attempt    int                 `json:"attempt"`
	Class      thread.FailureClass `json:"class"`
	RetryAfter time.Duration       `json:"retry_after_ns,omitempty"`
	At         time.Time           `json:"at"`
	Version    uint64              `json:"version"`
}

// Turn is one turn of the model, with all its attempts.
type Turn struct {
	Turn         int               `json:"turn"`
	Agent        string            `json:"agent"`
	NoTools      bool              `json:"no_tools,omitempty"`
	Attempts     int               `json:"attempts"`
	Status       string            `json:"status"` // requested, completed, failed
	Model        string            `json:"model,omitempty"`
	FinishReason string            `json:"finish_reason,omitempty"`
	InputTokens  int               `json:"input_tokens,omitempty"`
	OutputTokens int               `json:"output_tokens,omitempty"`
	Calls        int               `json:"calls,omitempty"`
	Warnings     []string          `json:"warnings,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Failures     []Failure         `json:"failures,omitempty"`
	RequestedAt  time.Time         `json:"requested_at"`           // the first attempt
	AttemptAt    time.Time         `json:"attempt_at"`             // the last attempt
	CompletedAt  *time.Time        `json:"completed_at,omitempty"` // of the last attempt's outcome
	Version      uint64            `json:"version,omitempty"`      // of turn_completed
}

// Call is one tool call, with all its steps.
type Call struct {
	ID         string               `json:"id"`
	Turn       int                  `json:"turn"`
	Index      int                  `json:"index"`
	Tool       string               `json:"tool"`
	Status     string               `json:"status"` // requested, offered, completed, failed
	Reason     thread.FailureReason `json:"reason,omitempty"`
	Bytes      int64                `json:"bytes,omitempty"`
	NotIndexed bool                 `json:"not_indexed,omitempty"`
	Indexing   string               `json:"indexing,omitempty"` // of a note that was not indexed: waiting, done, failed
	Mutations  []thread.Mutation    `json:"mutations,omitempty"`
	Steps      []Step               `json:"steps"`

	RequestedAt    time.Time  `json:"requested_at"`
	EndedAt        *time.Time `json:"ended_at,omitempty"`
	RequestVersion uint64     `json:"request_version"`
	ResultVersion  uint64     `json:"result_version,omitempty"`
}

// Step is one thing that was done for a call.
type Step struct {
	Number      int             `json:"step"`
	Executor    thread.Executor `json:"executor"`
	Action      string          `json:"action,omitempty"`
	Table       string          `json:"table,omitempty"`
	Device      string          `json:"device,omitempty"`
	Then        string          `json:"then,omitempty"`
	Background  bool            `json:"background,omitempty"`
	Started     bool            `json:"started,omitempty"`
	RequestedAt time.Time       `json:"requested_at"`
	OfferedAt   *time.Time      `json:"offered_at,omitempty"` // the first time
	EndedAt     *time.Time      `json:"ended_at,omitempty"`
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

// Get answers ErrNotFound for a run that is not in the scope.
func (m *Model) Get(ctx context.Context, scope domain.Scope, run string) (Run, error) {
	rows, err := m.query(ctx, `SELECT record FROM {runs} WHERE {live} AND scope = $1 AND run = $2`, string(scope), projections.Text(run))
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("runs: %s: %w", run, projections.ErrNotFound)
	}
	if err != nil {
		return Run{}, err
	}
	return rows[0], nil
}

// ByThread are a thread's newest runs, the newest first: those whose message has a version below before
// (0: from the end), at most limit; all of them with limit 0.
func (m *Model) ByThread(ctx context.Context, scope domain.Scope, threadID string, before uint64, limit int) ([]Run, error) {
	if before == 0 || before > math.MaxInt64 {
		before = math.MaxInt64
	}
	return m.query(ctx, `SELECT record FROM {runs} WHERE {live} AND scope = $1 AND thread = $2 AND version < $3
		ORDER BY version DESC LIMIT NULLIF($4::bigint, 0)`, string(scope), projections.Text(threadID), int64(before), limit)
}

// Waiting are the scope's runs that wait for a device: it is offline, or its calls have not been offered to it yet.
func (m *Model) Waiting(ctx context.Context, scope domain.Scope, device string) ([]Run, error) {
	found, err := m.query(ctx, `SELECT record FROM {runs} WHERE {live} AND scope = $1 AND status = 'waiting' ORDER BY created_at, run`, string(scope))
	return slices.DeleteFunc(found, func(r Run) bool { return r.Device != device }), err
}

func (m *Model) query(ctx context.Context, sql string, args ...any) ([]Run, error) {
	found, err := projections.Rows(ctx, m.db, Name, sql, scanRecord, args...)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	return found, nil
}

func scanRecord(row pgx.CollectableRow) (Run, error) {
	var record []byte
	if err := row.Scan(&record); err != nil {
		return Run{}, err
	}
	return decode(record)
}

func decode(record []byte) (Run, error) {
	var r Run
	if err := json.Unmarshal(record, &r); err != nil {
		return r, errors.Join(errors.New("a stored record is not readable"), err)
	}
	return r, nil
}
