package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
)

// Patience is how long a reader waits for a position.
const Patience = 2 * time.Second

// Waiter knows how far the read models are, in every process: it hears each transaction that moves them.
type Waiter struct {
	pool     *pgxpool.Pool
	patience time.Duration

	mu      sync.Mutex
	places  map[spot]place           // what was heard since the connection stands
	live    map[string]string        // by model: the generation that is read, such as "threads 2", as it was last asked for
	moved   chan struct{}            // closed at the next notice
	changed map[string]chan struct{} // by model, closed when it is touched
	heard   bool                     // a connection listens
	turn    int                      // counts what made live untrue
}

type spot struct {
	generation string
	partition  int32
}

type place struct {
	era  int
	next int64
}

// WaiterOption changes a Waiter under construction.
type WaiterOption func(*Waiter)

// WithPatience replaces Patience.
func WithPatience(d time.Duration) WaiterOption { return func(w *Waiter) { w.patience = d } }

// NewWaiter makes a waiter. Without Run it works, by asking the database.
func NewWaiter(pool *pgxpool.Pool, options ...WaiterOption) *Waiter {
	w := &Waiter{pool: pool, patience: Patience, places: map[spot]place{}, live: map[string]string{}, moved: make(chan struct{}), changed: map[string]chan struct{}{}}
	for _, option := range options {
		option(w)
	}
	return w
}

// Behind is the answer of a read model that did not get to a position in time.
type Behind struct {
	Model     string
	Partition int32
	Next      int64 // the log offset it reads next
	Want      int64 // the log offset it has not read yet
}

// Error says how far it is.
func (b *Behind) Error() string {
	return fmt.Sprintf("the read model %s is behind: it stands at offset %d of partition %d and has not read %d", b.Model, b.Next, b.Partition, b.Want)
}

// Wait returns when all models have a position: a read that begins then sees it. It answers a *Stopped
// (ErrStopped) at once if one has stopped before it, and a *Behind after two seconds. The position 0 of a
// scope is everywhere.
func (w *Waiter) Wait(ctx context.Context, p streams.Position, models ...string) error {
	if p.Position == 0 || w.knows(p, models) {
		return nil
	}
	timer := time.NewTimer(w.patience)
	defer timer.Stop()
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
	for _, model := range models {
		at, ok := w.places[spot{w.live[model], p.Partition}]
		if !ok || at.era != p.Era || at.next <= p.Offset {
			return false
		}
	}
	return true
}

// stale reports whether the newest that was heard says that a model is not there yet, so that asking is in vain.
func (w *Waiter) stale(p streams.Position, models []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.heard {
		return false
	}
	for _, model := range models {
		if at, ok := w.places[spot{w.live[model], p.Partition}]; ok && at.era == p.Era && at.next <= p.Offset {
			return true
		}
	}
	return false
}

// ask reads the checkpoints. A position of an older era than a model's is compared with what events has.
func (w *Waiter) ask(ctx context.Context, p streams.Position, models []string) error {
	w.mu.Lock()
	turn := w.turn
	w.mu.Unlock()
	rows, err := w.pool.Query(ctx, `SELECT m.name, coalesce(p.generation, 0), coalesce(c.next_offset, 0), coalesce(c.era, 0),
			coalesce((SELECT max(x.era) FROM projection_checkpoints x WHERE x.projection = m.name), 0) > $3
				AND EXISTS (SELECT 1 FROM events e WHERE e.scope = $4 AND e.position >= $5),
			c.stopped_at, c.stopped_offset, c.stopped_event, c.stopped_reason
		  FROM unnest($1::text[]) AS m (name)
		  LEFT JOIN projections p ON p.name = m.name
		  LEFT JOIN projection_checkpoints c ON c.projection = p.name AND c.generation = p.generation AND c.partition = $2 AND c.lane = 0`,
		models, p.Partition, p.Era, string(p.Scope), int64(p.Position))
	if err != nil {
		return fmt.Errorf("projections: wait: %w", err)
	}
	var (
		model   string
		live    int
		at      place
		older   bool
		mark    stopMark
		verdict error
	)
	_, err = pgx.ForEachRow(rows, append([]any{&model, &live, &at.next, &at.era, &older}, mark.targets()...), func() error {
		w.reads(turn, model, live)
		has := older || at.era == p.Era && at.next > p.Offset
		switch stopped := mark.stopped(model, p.Partition); {
		case has:
		case stopped != nil:
			verdict = stopped
		case !errors.Is(verdict, ErrStopped):
			verdict = &Behind{Model: model, Partition: p.Partition, Next: at.next, Want: p.Offset}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("projections: wait: %w", err)
	}
	return verdict
}

// reads notes which generation of a model is read, unless that may have changed since it was asked.
func (w *Waiter) reads(turn int, model string, generation int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard && w.turn == turn {
		w.live[model] = Generation{Projection: model, Number: generation}.String()
	}
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

// Run listens until ctx ends, and connects again when the connection is lost.
func (w *Waiter) Run(ctx context.Context) error {
	wait := newBackOff()
	for {
		began := time.Now()
		err := w.hear(ctx)
		w.forget()
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			wait.Reset()
		}
		if err == nil || !pause(ctx, wait.NextBackOff()) {
			return nil
		}
	}
}

func (w *Waiter) hear(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, w.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	w.mu.Lock()
	w.heard = true
	w.wake(nil)
	w.mu.Unlock()
	for {
		got, err := next(ctx, conn)
		if err != nil {
			return err
		}
		var n notice
		if err := json.Unmarshal([]byte(got.Payload), &n); err != nil {
			continue // not ours: anybody may notify
		}
		w.note(n)
	}
}

// The times after which a silent connection is asked whether it lives, and within which it must say so: a half-open one
// brings no notices, and what was heard on it stays what it was.
const (
	quietFor   = 2 * time.Second
	pongWithin = 2 * time.Second
)

// next waits for a notice.
func next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, quietFor)
		got, err := conn.WaitForNotification(wait)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return got, err
		}
		pong, cancel := context.WithTimeout(ctx, pongWithin)
		err = conn.Ping(pong)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}

// forget drops what was heard: without a connection nobody tells when it stops being true.
func (w *Waiter) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = false
	clear(w.places)
	clear(w.live)
	w.turn++
	w.wake(nil)
}

func (w *Waiter) note(n notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, generation := range n.Moved {
		w.places[spot{generation, n.Partition}] = place{era: n.Era, next: n.Next}
	}
	for _, generation := range n.Stopped {
		delete(w.places, spot{generation, n.Partition})
	}
	for _, model := range n.Changed {
		delete(w.live, model)
		w.turn++
	}
	touched := n.Touched
	if touched == nil {
		touched = []string{}
	}
	w.wake(touched)
}

// wake wakes who waits for a position, and who waits for those models, or for any with nil.
func (w *Waiter) wake(models []string) {
	close(w.moved)
	w.moved = make(chan struct{})
	for model, c := range w.changed {
		if models == nil || contains(models, model) {
			close(c)
			delete(w.changed, model)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
