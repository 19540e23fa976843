package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
)

// lookup gathers what the book does not know.
type lookup struct {
	streams.Lookup
	seenStreams map[streams.StreamKey]bool
	seenScopes  map[domain.Scope]bool
}

func (l *lookup) scope(b *book, scope domain.Scope) {
	if _, known := b.scopes.get(scope); known || l.seenScopes[scope] {
		return
	}
	if l.seenScopes == nil {
		l.seenScopes = map[domain.Scope]bool{}
	}
	l.seenScopes[scope] = true
	l.Scopes = append(l.Scopes, scope)
}

func (l *lookup) stream(b *book, key streams.StreamKey) {
	if _, known := b.streams.get(key); known || l.seenStreams[key] {
		return
	}
	if l.seenStreams == nil {
		l.seenStreams = map[streams.StreamKey]bool{}
	}
	l.seenStreams[key] = true
	l.Streams = append(l.Streams, key)
}

func (l *lookup) command(key streams.CommandKey) { l.Commands = append(l.Commands, key) }

func (l *lookup) empty() bool { return len(l.Streams)+len(l.Scopes)+len(l.Commands) == 0 }

// loadPatience is how long the store may take to answer, the first time; each try is given twice as long as the one before.
// A connection whose far side is gone without a word must not hold a partition until the connection itself gives up.
const loadPatience = 5 * time.Second

// load asks the store, and waits while it is away.
func (t *term) load(ctx context.Context, what streams.Lookup) (streams.Snapshot, error) {
	var snapshot streams.Snapshot
	patience := loadPatience
	err := t.persist(ctx, "states", "the stored states", func() (err error) {
		one, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		patience *= 2
		snapshot, err = t.config.States.Load(one, t.partition, what)
		return err
	})
	return snapshot, err
}

// persist tries again until do succeeds, or answers what no repetition heals. It says what the partition waits for.
func (t *term) persist(ctx context.Context, who, what string, do func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if err == nil || errors.Is(err, streams.ErrFlushConflict) {
			t.status.goOn(who)
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.status.wait(who, what, err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// loaded is an answer of the store and the states in it, folded anew where their fold is an old one.
type loaded struct {
	what     streams.Lookup
	floor    int64 // the checkpoint stored before: one below it means that the store went back in time
	snapshot streams.Snapshot
	states   []streamState // as snapshot.States
	refolded []bool
}

// fetch loads and decodes. It touches nothing of the term, so it may run beside it. Floor is what was
// stored when it was called.
func (t *term) fetch(ctx context.Context, what streams.Lookup, floor streams.Checkpoint) (loaded, error) {
	l := loaded{what: what, floor: floor.Next}
	var err error
	if l.snapshot, err = t.load(ctx, what); err != nil {
		return l, err
	}
	l.states = make([]streamState, len(l.snapshot.States))
	l.refolded = make([]bool, len(l.snapshot.States))
	for i, row := range l.snapshot.States {
		a, ok := t.config.Schema.Aggregate(row.Stream.Kind())
		if !ok {
			return l, fmt.Errorf("no aggregate for stored stream %s", row.Stream)
		}
		l.states[i] = streamState{version: row.Version, hash: row.Hash}
		if l.refolded[i] = row.Fold != a.Fold; l.refolded[i] {
			l.states[i].value, err = t.refold(ctx, a, row)
		} else {
			l.states[i].value, err = a.DecodeState(row.State)
		}
		if err != nil {
			return l, fmt.Errorf("stored state of %s: %w", row.Stream, err)
		}
	}
	return l, nil
}

var (
	errBehind = errors.New("events is behind")
	// A state that is folded from a part of its events is a wrong one, and nothing would ever say so.
	errCut = errors.New("events that it needs are not kept any more: fill the read model again (`cairn projections rebuild events`)")
)

// refold folds a stream again from its events, up to the stored version; it waits until they are there.
func (t *term) refold(ctx context.Context, a domain.Aggregate, row streams.StateRow) (any, error) {
	var state any
	err := t.persist(ctx, "refold", "the events of a state that must be folded again", func() error {
		if t.config.History == nil {
			return errors.New("no history to fold from")
		}
		state = a.Zero()
		version := uint64(0)
		key := streams.StreamKey{Scope: row.Scope, Stream: row.Stream}
		_, err := t.config.History.Stream(ctx, key, 0, func(r streams.Recorded) error {
			if r.Version > row.Version {
				return nil
			}
			if r.Version != version+1 {
				return fmt.Errorf("%w: version %d follows %d", errCut, r.Version, version)
			}
			event, err := t.config.Schema.Decode(r)
			if err != nil {
				return err
			}
			next, err := t.book.evolve(r, streamState{value: state}, event)
			state, version = next.value, r.Version
			return err
		})
		if err == nil && version < row.Version {
			err = fmt.Errorf("%w: version %d of %d", errBehind, version, row.Version)
		}
		return err
	})
	return state, err
}

// learn puts what was loaded into the book. It refuses what is not of a checkpoint that this writer stored.
func (t *term) learn(l loaded) error {
	b := t.book
	known := slices.Contains(b.mine, l.snapshot.Checkpoint) && l.snapshot.Checkpoint.Next >= l.floor
	if !known && !safety.Off(safety.SetBack) {
		return fmt.Errorf("%w: loaded at %d, stored at %d", errAnew, l.snapshot.Checkpoint.Next, b.stored.Next)
	}
	for i, row := range l.snapshot.States {
		key := streams.StreamKey{Scope: row.Scope, Stream: row.Stream}
		if _, known := b.streams.get(key); known {
			continue
		}
		b.streams.loaded(key, l.states[i])
		if l.refolded[i] {
			b.streams.replace(key, l.states[i])
		}
	}
	for _, row := range l.snapshot.Scopes {
		b.scopes.loaded(row.Scope, scopeState{position: row.Position, decidedAt: row.DecidedAt, erased: row.Erased})
	}
	for _, scope := range l.what.Scopes {
		b.scopes.loaded(scope, scopeState{}) // unless it has a row
	}
	for _, key := range l.what.Streams {
		if _, known := b.streams.get(key); known {
			continue
		}
		if a, ok := t.config.Schema.Aggregate(key.Stream.Kind()); ok {
			b.streams.loaded(key, streamState{value: a.Zero()})
		}
	}
	return nil
}

// loadFor loads and learns at once.
func (t *term) loadFor(ctx context.Context, what streams.Lookup) error {
	if (&lookup{Lookup: what}).empty() {
		return nil
	}
	l, err := t.fetch(ctx, what, t.book.stored)
	if err != nil {
		return err
	}
	return t.learn(l)
}
