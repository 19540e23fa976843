package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// book is what a writer knows of a partition: the fold of the commits that count, as far as it is
// needed to decide. It begins at the stored checkpoint; what it does not know stands in the store as it was then.
type book struct {
	config    *WriterConfig
	partition int32
	voided    map[int64]bool

	at      streams.Checkpoint   // after the last record that was read
	stored  streams.Checkpoint   // what this writer stored last
	mine    []streams.Checkpoint // stored, or perhaps stored, by it lately; the last is the newest
	storing bool

	streams *cache[streams.StreamKey, streamState]
	scopes  *cache[domain.Scope, scopeState]
	ids     *window
}

// streamState is a stream as deciders see it.
type streamState struct {
	version uint64
	hash    []byte
	value   any
}

type scopeState struct {
	position  uint64
	decidedAt string
	erased    bool
}

func newBook(config *WriterConfig, partition int32, from streams.Checkpoint, voided map[int64]bool) (*book, error) {
	b := &book{
		config: config, partition: partition, voided: voided,
		at: from, stored: from, mine: []streams.Checkpoint{from},
		ids: newWindow(from.Acceptance.After, config.HeldIDs),
	}
	var err1, err2 error
	b.streams, err1 = newCache[streams.StreamKey, streamState](config.CachedStreams)
	b.scopes, err2 = newCache[domain.Scope, scopeState](config.CachedStreams)
	return b, errors.Join(err1, err2)
}

// replayed is a counted commit on its way into the book.
type replayed struct {
	record *kgo.Record
	mark   streams.Mark
	answer streams.AnswerRow
	commit streams.Commit
	events []any
}

// fold reads records of the log that others wrote, or this writer in an earlier lead.
func (t *term) fold(ctx context.Context, records []*kgo.Record, led func(streams.Mark)) error {
	b := t.book
	counted := make([]replayed, 0, len(records))
	at := b.at
	for _, r := range records {
		at.Next = r.Offset + 1
		m, err := MarkOf(r.Headers)
		if err != nil {
			t.status.log.Warn("a record of the log has no mark, and is ignored", "offset", r.Offset, "error", err)
			continue
		}
		next, ok := at.Acceptance.Accept(m)
		at.Acceptance = next
		switch {
		case !ok:
		case m.Sort == streams.SortCommit:
			counted = append(counted, replayed{record: r, mark: m})
			if _, parks := find(r.Headers, HeaderParks); parks {
				t.owed = append(t.owed, r)
			}
		case led != nil:
			led(m)
		}
	}
	if err := b.decode(ctx, counted); err != nil {
		return err
	}
	if err := t.loadFor(ctx, lookupOf(b, counted)); err != nil {
		return err
	}
	now := b.config.Now()
	for i := range counted {
		if err := b.add(&counted[i], now); err != nil {
			return fmt.Errorf("folding record %d of the log: %w", counted[i].record.Offset, err)
		}
	}
	b.at = at
	b.passed()
	return nil
}

// passed says that a batch is over.
func (b *book) passed() {
	b.streams.passed()
	b.scopes.passed()
}

// decode reads the bodies, on all cores: replay is as fast as this. Of several faults it tells the log's first.
func (b *book) decode(ctx context.Context, counted []replayed) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	faults := make([]error, len(counted), len(counted)+1)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(counted) && ctx.Err() == nil; i += workers {
				if err := b.decodeOne(&counted[i]); err != nil {
					faults[i] = fmt.Errorf("record %d of the log: %w", counted[i].record.Offset, err)
					return
				}
			}
		})
	}
	all.Wait()
	return cmp.Or(append(faults, ctx.Err())...)
}

func (b *book) decodeOne(r *replayed) error {
	h, err := ReadHeaders(r.record.Headers)
	if err != nil && !b.voided[r.record.Offset] {
		return err
	}
	r.answer = h.Answer
	r.answer.Partition, r.answer.Offset = r.record.Partition, r.record.Offset
	r.commit = streams.Commit{Scope: r.answer.Scope, DecidedAt: r.answer.DecidedAt}
	if len(r.answer.Heads) == 0 {
		return nil
	}
	if b.voided[r.record.Offset] {
		r.answer.Heads = nil
		return nil
	}
	if r.commit, err = codec.DecodeCommit(r.record.Value); err != nil {
		return &Defect{Partition: b.partition, Offset: r.record.Offset, Reason: err.Error()}
	}
	r.events = make([]any, len(r.commit.Events))
	for i, e := range r.commit.Events {
		if r.events[i], err = b.config.Schema.Decode(e); err != nil {
			return err
		}
	}
	return nil
}

// lookupOf names what must be loaded before the commits can be folded.
func lookupOf(b *book, counted []replayed) streams.Lookup {
	var l lookup
	for i := range counted {
		c := &counted[i].commit
		if c.Scope == "" {
			continue
		}
		l.scope(b, c.Scope)
		for _, e := range c.Events {
			l.stream(b, streams.StreamKey{Scope: c.Scope, Stream: e.Stream})
		}
	}
	return l.Lookup
}

// add folds one commit. Versions and positions that are not the next ones are a defect of whoever wrote
// them: it says so and goes no further.
func (b *book) add(r *replayed, now time.Time) error {
	c := &r.commit
	if c.Scope != "" {
		scope, ok := b.scopes.get(c.Scope)
		if !ok {
			return fmt.Errorf("scope %s was not loaded", c.Scope)
		}
		scope.decidedAt = max(scope.decidedAt, c.DecidedAt)
		for i, e := range c.Events {
			key := streams.StreamKey{Scope: c.Scope, Stream: e.Stream}
			state, ok := b.streams.get(key)
			if !ok {
				return fmt.Errorf("stream %s was not loaded", e.Stream)
			}
			if e.Position != scope.position+1 || e.Version != state.version+1 {
				return &Defect{
					Partition: b.partition, Offset: r.record.Offset,
					Reason: fmt.Sprintf("event %s has version %d and position %d, after %d and %d", e.ID, e.Version, e.Position, state.version, scope.position),
				}
			}
			next, err := b.evolve(e, state, r.events[i])
			if err != nil {
				return err
			}
			b.streams.replace(key, next)
			scope.position = e.Position
			scope.erased = scope.erased || e.Type == erasure
		}
		b.scopes.replace(c.Scope, scope)
	}
	if b.voided[r.record.Offset] {
		scope, _ := b.scopes.get(c.Scope)
		r.answer.Position = scope.position // that in its headers is as wrong as its events
	}
	b.ids.add(r.answer, streams.CommandPlace{Era: r.mark.Era, Offset: r.mark.CommandOffset}, now)
	return nil
}

// erasure is the event after which every command of its scope is rejected.
const erasure = "account.erased"

// evolve folds an event, which must be as Schema.Decode answers it: without sealed content.
func (b *book) evolve(e streams.Recorded, state streamState, event any) (next streamState, err error) {
	a, ok := b.config.Schema.Aggregate(e.Stream.Kind())
	if !ok {
		return state, fmt.Errorf("no aggregate for stream %s", e.Stream)
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicked{"Evolve", e.Type, p}
		}
	}()
	return streamState{version: e.Version, hash: e.Hash, value: a.Evolve(state.value, event)}, nil
}

// panicked is a panic in a decider.
type panicked struct {
	where, what string
	value       any
}

// Error says what panicked and, where that can't hold content, why.
func (p panicked) Error() string {
	if fault, ok := p.value.(runtime.Error); ok {
		return fmt.Sprintf("%s of %s panicked: %v", p.where, p.what, fault)
	}
	return fmt.Sprintf("%s of %s panicked with a %T", p.where, p.what, p.value)
}
