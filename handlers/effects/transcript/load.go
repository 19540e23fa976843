package transcript

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// Events are the stored events of a stream, oldest first in every answer.
type Events interface {
	// Before answers the newest at most limit events with a version below that one.
	Before(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error)
	// After answers the oldest at most limit events with a version above that one.
	After(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error)
}

// Opener opens the content of events.
type Opener interface {
	Open(ctx context.Context, keys streams.Keys, r streams.Recorded) (any, error)
}

// Source is where threads are read from.
type Source struct {
	Events Events
	Schema Opener
	Keys   streams.Keys
	// Changed wakes when the events read model may have moved.
	Changed func() <-chan struct{}
}

const (
	page    = 200
	tooFar  = 20_000 // events of one run that are read at most
	history = 400    // events before the run that are read at most
)

// Load reads the thread as far as it is stored, at least up to version upto (it waits for it until ctx
// ends), and back to the start of the run and some history before it. An empty run reads the history only.
func (s Source) Load(ctx context.Context, scope domain.Scope, stream domain.Stream, run string, upto uint64) (*Thread, error) {
	key := streams.StreamKey{Scope: scope, Stream: stream}
	rows, err := s.newest(ctx, key, upto)
	if err != nil {
		return nil, err
	}
	t := &Thread{ID: stream.ID(), posted: map[string]*thread.MessagePosted{}, calls: map[string]*Call{}}
	events, err := s.open(ctx, rows)
	if err != nil {
		return nil, err
	}
	found, before := s.holds(events, run), 0
	for len(rows) > 0 && rows[0].Version > 1 && len(rows) < tooFar && (!found || before < history) {
		older, err := s.Events.Before(ctx, key, rows[0].Version, page)
		if err != nil {
			return nil, fmt.Errorf("read the thread: %w", err)
		}
		if len(older) == 0 {
			break
		}
		opened, err := s.open(ctx, older)
		if err != nil {
			return nil, err
		}
		if found {
			before += len(older)
		}
		found = found || s.holds(opened, run)
		rows, events = slices.Concat(older, rows), slices.Concat(opened, events)
	}
	t.Whole = len(rows) > 0 && rows[0].Version == 1
	for i, e := range events {
		t.apply(rows[i].Version, e)
	}
	return t, nil
}

// newest reads the last events, once those up to the version are stored.
func (s Source) newest(ctx context.Context, key streams.StreamKey, upto uint64) ([]streams.Recorded, error) {
	ticker := time.NewTicker(time.Second) // for a wake-up that was lost
	defer ticker.Stop()
	for {
		changed := s.Changed()
		rows, err := s.Events.Before(ctx, key, 1<<62, page)
		if err != nil {
			return nil, fmt.Errorf("read the thread: %w", err)
		}
		if len(rows) > 0 && rows[len(rows)-1].Version >= upto {
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for version %d of %s: %w", upto, key.Stream, ctx.Err())
		case <-changed:
		case <-ticker.C:
		}
	}
}

func (s Source) open(ctx context.Context, rows []streams.Recorded) ([]any, error) {
	events := make([]any, len(rows))
	for i, r := range rows {
		event, err := s.Schema.Open(ctx, s.Keys, r)
		if err != nil {
			return nil, fmt.Errorf("open %s %d: %w", r.Stream, r.Version, err)
		}
		events[i] = event
	}
	return events, nil
}

// holds reports whether the message of the run is among the events.
func (s Source) holds(events []any, run string) bool {
	if run == "" {
		return true
	}
	for _, e := range events {
		if m, ok := e.(thread.MessagePosted); ok && m.RunID == run {
			return true
		}
	}
	return false
}

// Fold makes a thread of opened events that begin with its first; for tests and for readers that have them.
func Fold(id string, events []any) *Thread {
	t := &Thread{ID: id, Whole: true, posted: map[string]*thread.MessagePosted{}, calls: map[string]*Call{}}
	for i, e := range events {
		t.apply(uint64(i+1), e)
	}
	return t
}

// Over reports whether, after that version, the effect got an outcome or its run ended, or its account was erased.
func (s Source) Over(ctx context.Context, scope domain.Scope, stream domain.Stream, effect string, after uint64) (bool, error) {
	if _, err := s.Keys.Index(ctx, scope); errors.Is(err, streams.ErrScopeErased) {
		return true, nil
	}
	rows, err := s.Events.After(ctx, streams.StreamKey{Scope: scope, Stream: stream}, after, page)
	if err != nil {
		return false, fmt.Errorf("read the thread: %w", err)
	}
	for _, r := range rows {
		event, err := s.Schema.Open(ctx, s.Keys, r)
		if err != nil && event == nil {
			return false, fmt.Errorf("open %s %d: %w", r.Stream, r.Version, err)
		}
		if c, ok := event.(domain.Closes); ok && slices.Contains(c.Closes(), effect) {
			return true, nil
		}
		if c, ok := event.(domain.ClosesGroup); ok && strings.HasPrefix(effect, c.ClosesGroup()+".") {
			return true, nil
		}
	}
	return false, nil
}
