package pubsub

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// worker hands out the messages of one partition, one after the other.
type worker struct {
	*subscription
	partition int32
	ctx       context.Context //nolint:containedctx // ends when the partition is taken away
	end       context.CancelFunc
	woken     chan struct{}
	done      chan struct{}

	mu     sync.Mutex
	queue  []*kgo.Record
	paused bool
}

// push adds records; it never waits.
func (w *worker) push(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	w.mu.Lock()
	w.queue = append(w.queue, records...)
	if !w.paused && len(w.queue) > backlog {
		w.paused = true
		w.client.PauseFetchPartitions(w.self())
	}
	w.mu.Unlock()
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *worker) self() map[string][]int32 { return map[string][]int32{w.topic: {w.partition}} }

func (w *worker) pop() *kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused && len(w.queue) <= backlog/2 {
		w.paused = false
		w.client.ResumeFetchPartitions(w.self())
	}
	if len(w.queue) == 0 {
		return nil
	}
	r := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return r
}

func (w *worker) run() {
	defer close(w.done)
	for {
		r := w.pop()
		if r == nil {
			select {
			case <-w.woken:
				continue
			case <-w.ctx.Done():
				return
			}
		}
		if !w.deliver(r) {
			return
		}
		if w.config.Group != "" {
			w.client.MarkCommitRecords(r)
		}
	}
}

// deliver hands a record out until it is taken. It answers false where the partition was taken away before.
func (w *worker) deliver(r *kgo.Record) bool {
	for {
		taken, ok := w.offer(r)
		if taken || !ok {
			return taken
		}
		timer := time.NewTimer(w.config.NackPause)
		select {
		case <-timer.C:
		case <-w.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// offer hands a record out once; ok says that it may be offered again. A message whose partition was taken
// away is told so by the end of its context.
func (w *worker) offer(r *kgo.Record) (taken, ok bool) {
	m := messageOf(r)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	m.SetContext(ctx)
	select {
	case w.out <- m:
	case <-ctx.Done():
		return false, false
	}
	select {
	case <-m.Acked():
		return true, true
	case <-m.Nacked():
		return false, true
	case <-ctx.Done():
		select {
		case <-m.Acked(): // in the last moment
			return true, true
		default:
			return false, false
		}
	}
}
