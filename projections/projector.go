package projections

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Projector folds events into the tables of one generation of one read model.
type Projector interface {
	// Name is the read model's, such as "open_effects".
	Name() string
	// Revision is raised when the code or the shape of its tables changes meaning; a new generation is then filled.
	Revision() int
	// Apply queues what the batch changes, with Batch.Queue; it may read its own tables in the transaction
	// first. It folds per key and takes content for what it is: sealed. The transaction also holds the
	// checkpoint and the other models. Three outcomes: nil, done; an error of the connection or the server's
	// load, tried again; any other error can never work and stops this model.
	Apply(ctx context.Context, tx pgx.Tx, b Batch) error
}

// ErrNotFound is the answer of a read model that has no such row in the scope.
var ErrNotFound = errors.New("not found")

// Batch is a run of counted commits of one partition, in order.
type Batch struct {
	Generation Generation // whose tables it goes to
	Partition  int32
	Commits    []streams.Commit
	Schema     *codec.Schema

	values  [][]any         // of the events of each commit, decoded once for all models; nil where nobody asked before
	skips   map[string]bool // ids of events that the model steps over
	touched *bool
	writes  *writes
	bulk    *bulk // nil: what is written goes with the batch's transaction
}

// writes are the statements of all models of a transaction: they go to the server together.
type writes struct {
	batch  pgx.Batch
	owners []string
	copies []func(context.Context, pgx.Tx) error // after them
}

// NewBatch is a batch outside an engine, for tests.
func NewBatch(schema *codec.Schema, g Generation, partition int32, commits []streams.Commit) Batch {
	return newBatch(schema, &piece{partition: partition, commits: commits}).For(g)
}

func newBatch(schema *codec.Schema, p *piece) Batch {
	return Batch{Partition: p.partition, Commits: p.commits, values: p.values, Schema: schema, touched: new(bool), writes: &writes{}}
}

// For is the same batch for a generation.
func (b Batch) For(g Generation) Batch {
	b.Generation, b.touched = g, new(bool)
	return b
}

// part is the same batch for one seat, from an offset on.
func (b Batch) part(s *seat, from int64) Batch {
	b = b.For(s.generation)
	b.skips = s.skips
	i := sort.Search(len(b.Commits), func(i int) bool { return b.Commits[i].Place.Offset >= from })
	b.Commits = b.Commits[i:]
	if b.values != nil {
		b.values = b.values[i:]
	}
	return b
}

// Expand writes the names of the generation's tables where SQL has them in braces, such as {threads}.
func (b Batch) Expand(sql string) string { return b.Generation.Expand(sql) }

// Queue writes rows; tables of the model are named in braces, such as {threads}. The statements of a transaction run in the
// order in which they were queued, after all models have read.
func (b Batch) Queue(sql string, args ...any) {
	b.writes.batch.Queue(b.Generation.Expand(sql), args...)
	b.writes.owners = append(b.writes.owners, b.Generation.Projection)
}

// Flush sends what was queued. The engine does it; tests without one do.
func (b Batch) Flush(ctx context.Context, tx pgx.Tx) error {
	if err := b.send(ctx, tx); err != nil {
		return err
	}
	for _, rows := range b.writes.copies {
		if err := rows(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (b Batch) send(ctx context.Context, tx pgx.Tx) (err error) {
	if len(b.writes.owners) == 0 {
		return nil
	}
	results := tx.SendBatch(ctx, &b.writes.batch)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	for _, owner := range b.writes.owners {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("%s: write: %w", owner, err)
		}
	}
	return nil
}

// Touch says that the model's rows changed: readers of Waiter.Changed wake when the batch is committed.
func (b Batch) Touch() { *b.touched = true }

// Event is a recorded event and its decoded value, content zero.
type Event struct {
	streams.Recorded
	Value any
}

// Recorded are the events as they stand in the log.
func (b Batch) Recorded() iter.Seq[streams.Recorded] {
	return func(yield func(streams.Recorded) bool) {
		for i := range b.Commits {
			for j := range b.Commits[i].Events {
				r := &b.Commits[i].Events[j]
				if b.skips[r.ID] {
					continue
				}
				if !yield(*r) {
					return
				}
			}
		}
	}
}

// Events are the decoded events of streams of those kinds, all of them without a kind. It ends at the
// first that can't be decoded, with an *EventError.
func (b Batch) Events(kinds ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for i := range b.Commits {
			for j := range b.Commits[i].Events {
				r := &b.Commits[i].Events[j]
				if len(kinds) > 0 && !slices.Contains(kinds, r.Stream.Kind()) || b.skips[r.ID] {
					continue
				}
				value, err := b.value(i, j)
				if err != nil {
					yield(Event{}, &EventError{Event: *r, Err: err})
					return
				}
				if !yield(Event{Recorded: *r, Value: value}, nil) {
					return
				}
			}
		}
	}
}

func (b Batch) value(commit, event int) (any, error) {
	if b.values != nil && b.values[commit] != nil && b.values[commit][event] != nil {
		return b.values[commit][event], nil
	}
	return b.Schema.Decode(b.Commits[commit].Events[event])
}

// Checker is a Projector that sees when the log itself is at fault, whichever process looks and wherever it began. No other
// projector that reads with it goes past such a commit.
type Checker interface {
	Projector
	// Defect reports whether a failure to apply a commit shows that no correct writer wrote it.
	Defect(err error) bool
}

// EventError names the event that a model can't apply.
type EventError struct {
	Event streams.Recorded
	Err   error
}

// Error says which event and why.
func (e *EventError) Error() string {
	return fmt.Sprintf("event %s (%s, version %d of %s): %v", e.Event.ID, e.Event.Type, e.Event.Version, e.Event.Stream, e.Err)
}

// Unwrap is the reason.
func (e *EventError) Unwrap() error { return e.Err }

// Text is s as Postgres can store it: without NUL and without invalid UTF-8. What a client wrote into an id
// must never stop a projector.
func Text[S ~string](s S) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(s), "\uFFFD"), "\x00", "\uFFFD")
}
