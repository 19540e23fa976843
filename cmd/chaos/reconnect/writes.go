package reconnect

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// Writes commit to threads at a rate, until they are told to stop.
type Writes struct {
	Asker  streams.Asker
	Scopes []domain.Scope
	// Threads of each scope, opened by Open.
	Threads int
	Rate    int // a second, of all
	Run     string

	committed, failed atomic.Uint64
}

// Thread is one of a scope's.
func (w *Writes) Thread(n int) string { return fmt.Sprintf("%s-%d", w.Run, n) }

// Stream is that of a thread.
func (w *Writes) Stream(n int) domain.Stream { return domain.NewStream("thread", w.Thread(n)) }

// Open opens the threads.
func (w *Writes) Open(ctx context.Context) error {
	for _, scope := range w.Scopes {
		for n := range w.Threads {
			if err := w.ask(ctx, scope, fmt.Sprintf("open-%d", n), thread.Open{On: thread.On{Thread: w.Thread(n)}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writes) ask(ctx context.Context, scope domain.Scope, request string, body domain.Command) error {
	id := streams.CommandID(scope, w.Run+"-"+request)
	for {
		within, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := w.Asker.Ask(within, streams.Command{Scope: scope, ID: id, Actor: domain.Actor{Kind: domain.ActorUser, ID: string(scope)}, Body: body})
		cancel()
		if err == nil {
			w.committed.Add(1)
			return nil
		}
		w.failed.Add(1)
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// writers is how many commands are under way at once, at most.
const writers = 1024

// Write writes until ctx ends; what was begun is settled within hard.
func (w *Writes) Write(ctx, hard context.Context) {
	due := make(chan int)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for n := range due {
				scope := w.Scopes[n%len(w.Scopes)]
				of := (n / len(w.Scopes)) % w.Threads
				title := thread.Title{Text: fmt.Sprintf("title %d", n)}
				_ = w.ask(hard, scope, fmt.Sprint(n), thread.Rename{On: thread.On{Thread: w.Thread(of)}, Title: title}) // one that is never decided is judged by the log
			}
		})
	}
	defer group.Wait()
	defer close(due)
	const each = 10 * time.Millisecond
	tick := time.NewTicker(each)
	defer tick.Stop()
	began, n := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// What could not be taken at its time is made up for later.
		for owed := int(time.Since(began).Seconds() * float64(w.Rate)); n < owed; n++ {
			select {
			case <-ctx.Done():
				return
			case due <- n:
			}
		}
	}
}

// Committed is how many commands were acknowledged; Failed how many attempts were not.
func (w *Writes) Committed() uint64 { return w.committed.Load() }

// Failed is how many attempts were not acknowledged; each was made again.
func (w *Writes) Failed() uint64 { return w.failed.Load() }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
