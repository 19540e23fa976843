package kafka_test

import (
	"context"
	"sync"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/memory"
)

// envelope is a command as a caller sends it who looked nothing up.
func envelope(scope domain.Scope, request string, body domain.Command) codec.Envelope {
	return codec.Envelope{Scope: scope, ID: streams.CommandID(scope, request), Actor: domain.Actor{Kind: domain.ActorSystem}, Body: body}
}

// history is a read model of events that may be behind.
type history struct {
	mu     sync.Mutex
	events []streams.Commit
	behind bool
}

func (h *history) level() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.behind = false
}

func (h *history) put(events []streams.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = events
}

// Stream implements streams.History.
func (h *history) Stream(_ context.Context, key streams.StreamKey, after uint64, each func(streams.Recorded) error) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last uint64
	for i, c := range h.events {
		if h.behind && i == len(h.events)-1 {
			break
		}
		for _, e := range c.Events {
			if c.Scope == key.Scope && e.Stream == key.Stream && e.Version > after {
				if err := each(e); err != nil {
					return last, err
				}
				last = e.Version
			}
		}
	}
	return last, nil
}

// setBack is a store that can be put back to what it was, as a database is from a copy.
type setBack struct {
	*memory.States
	mu      sync.Mutex
	flushes []streams.Flush
}

// Store implements streams.States.
func (b *setBack) Store(ctx context.Context, f streams.Flush) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.States.Store(ctx, f)
	if err == nil {
		b.flushes = append(b.flushes, f)
	}
	return err
}

// Load implements streams.States.
func (b *setBack) Load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.States.Load(ctx, partition, what)
}

// back undoes the last flush.
func (b *setBack) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushes = b.flushes[:len(b.flushes)-1]
	if err := b.PutBack(context.Background(), b.flushes); err != nil {
		panic(err)
	}
}
