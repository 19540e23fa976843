package projections

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
	conn, err := pgx.ConnectConfig(ctx, w.db.Pool().Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	w.mu.Lock()
	w.heard = true
	w.turn++
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
	clear(w.reads)
	w.turn++
	w.wake(nil)
}

func (w *Waiter) note(n notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, generation := range n.Moved {
		w.places[spot{generation, n.Partition, n.Lane}] = place{era: n.Era, next: n.Next}
	}
	for _, generation := range n.Stopped {
		delete(w.places, spot{generation, n.Partition, n.Lane})
		w.turn++
	}
	for _, model := range n.Changed {
		delete(w.reads, model)
		maps.DeleteFunc(w.places, func(s spot, _ place) bool { return strings.HasPrefix(s.generation, model+" ") })
		w.turn++
	}
	touched := append(n.Touched, n.Changed...)
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
		if models == nil || slices.Contains(models, model) {
			close(c)
			delete(w.changed, model)
		}
	}
}
