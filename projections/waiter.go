package projections

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Patience is how long a reader waits for a position.
const Patience = 2 * time.Second

// Waiter knows how far the read models are, in every process: it hears each transaction that moves them.
type Waiter struct {
	db       *DB
	patience time.Duration
	log      Log // nil: nobody says where the log ends
	era      int // of the log; 0: any

	mu      sync.Mutex
	places  map[spot]place           // of generations, since the connection stands
	reads   map[string]reading       // by model, as it was last asked for
	moved   chan struct{}            // closed at the next notice
	changed map[string]chan struct{} // by model, closed when it is touched
	heard   bool                     // a connection listens
	turn    int                      // counts what made reads or places untrue
}

// reading is the generation of a model that is read.
type reading struct {
	generation string // such as "threads 2"
	lanes      int
}

type spot struct {
	generation string
	partition  int32
	lane       int
}

type place struct {
	era  int
	next int64
}

// Log says where the log ends and where a scope lies in it. A streams.Tailer is one.
type Log interface {
	Partitions() int32
	PartitionOf(scope domain.Scope) int32
	End(ctx context.Context, partition int32) (int64, error)
}

// WaiterOption changes a Waiter under construction.
type WaiterOption func(*Waiter)

// WithPatience replaces Patience.
func WithPatience(d time.Duration) WaiterOption { return func(w *Waiter) { w.patience = d } }

// WithLog lets the waiter tell a position that the log has not, with the era of the log.
func WithLog(log Log, era int) WaiterOption {
	return func(w *Waiter) { w.log, w.era = log, era }
}

// NewWaiter makes a waiter. Without Run it works, by asking the database.
func NewWaiter(pool *pgxpool.Pool, options ...WaiterOption) *Waiter {
	w := &Waiter{
		db: NewDB(pool), patience: Patience,
		places: map[spot]place{}, reads: map[string]reading{}, moved: make(chan struct{}), changed: map[string]chan struct{}{},
	}
	for _, option := range options {
		option(w)
	}
	return w
}

// doubt is how long a position is waited for before the log is asked whether it has it.
const doubt = 50 * time.Millisecond

// Wait returns when all models have a position: a read that begins then sees it. At once it answers a *Stopped or a
// *Paused if one has stopped, or was paused, before it; soon an *Unknown if the log has no such position, where the waiter
// knows the log; and a *Behind after two seconds. The position 0 of a scope is everywhere.
func (w *Waiter) Wait(ctx context.Context, p streams.Position, models ...string) error {
	if p.Position == 0 || w.knows(p, models) {
		return nil
	}
	if err := w.impossible(p); err != nil {
		return err
	}
	timer, doubts := time.NewTimer(w.patience), time.NewTimer(doubt)
	defer timer.Stop()
	defer doubts.Stop()
	for {
		moved, again := w.listen()
		err := w.ask(ctx, p, models)
		var behind *Behind
		if err == nil || !errors.As(err, &behind) {
			return err
		}
		for asleep := true; asleep; {
			select {
			case <-moved:
				moved, again = w.listen() // before looking: what comes after the look wakes us
				if w.knows(p, models) {
					return nil
				}
				asleep = w.stale(p, models) // only others moved: go on waiting
			case <-again: // nobody listens: ask again
				asleep = false
			case <-doubts.C:
				if unknown := w.beyond(ctx, p); unknown != nil {
					return unknown
				}
			case <-timer.C:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// unheard is how often the database is asked while no connection listens.
const unheard = 50 * time.Millisecond

// listen is what to wait for before asking again: the next notice, or a while where nobody listens.
func (w *Waiter) listen() (moved <-chan struct{}, again <-chan time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.heard {
		again = time.After(unheard)
	}
	return w.moved, again
}

// knows reports whether all models were heard to have passed the position.
func (w *Waiter) knows(p streams.Position, models []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(models, func(model string) bool {
		at, ok := w.place(p, model)
		return !ok || at.era != p.Era || at.next <= p.Offset
	})
}

// stale reports whether the newest that was heard says that a model is not there yet, so that asking is in vain. It is not
// where nothing is known of one of them: that one may have stopped, or be paused.
func (w *Waiter) stale(p streams.Position, models []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var behind bool
	for _, model := range models {
		at, ok := w.place(p, model)
		if !ok || at.era != p.Era {
			return false
		}
		behind = behind || at.next <= p.Offset
	}
	return w.heard && behind
}

// place is how far a model was heard to be in the lane of a position's scope.
func (w *Waiter) place(p streams.Position, model string) (place, bool) {
	r, ok := w.reads[model]
	if !ok {
		return place{}, false
	}
	at, ok := w.places[spot{r.generation, p.Partition, LaneOf(p.Scope, r.lanes)}]
	return at, ok
}

// Changed is closed the next time that rows of a model change (or may have). Take the channel first, then
// look, then wait.
func (w *Waiter) Changed(model string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.changed[model]
	if !ok {
		c = make(chan struct{})
		w.changed[model] = c
	}
	return c
}
