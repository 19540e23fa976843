package live

import (
	"context"
	"sync"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// watchLength is how many arrivals a watch keeps for a reader that is elsewhere.
const watchLength = 4096

// watch keeps what comes of one thread and one run until its reader takes it. One that is full drops all of
// it and says so; its reader then reads the log again from the last event it had.
type watch struct {
	hub       *hub
	partition *partition
	key       streams.StreamKey
	run       runKey
	mark      int64 // the log's offset from which on the watch has everything
	wake      chan struct{}

	mu       sync.Mutex
	arrivals []arrival
	lost     bool
}

// arrival is an event or a provisional frame.
type arrival struct {
	item  *item
	frame *streams.LiveFrame
}

func (w *watch) push(a arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.lost:
	case len(w.arrivals) < watchLength:
		w.arrivals = append(w.arrivals, a)
	case a.item != nil:
		w.arrivals, w.lost = nil, true
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take waits for what came. Lost says that something is missing and the log must be read again.
func (w *watch) take(ctx context.Context) (arrivals []arrival, lost bool, err error) {
	for {
		w.mu.Lock()
		arrivals, lost = w.arrivals, w.lost
		w.arrivals = nil
		w.mu.Unlock()
		if len(arrivals) > 0 || lost {
			return arrivals, lost, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// renew begins anew: what is before the new mark is read from the log.
func (w *watch) renew() {
	w.partition.mu.Lock()
	defer w.partition.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals, w.lost = nil, false
	w.mark = w.partition.next.Next
}

func (w *watch) leave() {
	w.hub.mu.Lock()
	remove(w.hub.watches, w.run, w)
	w.hub.mu.Unlock()
	w.partition.mu.Lock()
	remove(w.partition.watches, w.key, w)
	w.partition.mu.Unlock()
}

// item is an event of the log, decoded and opened at most once for all who follow it.
type item struct {
	recorded streams.Recorded

	mu      sync.Mutex
	decoded any
	opened  any
}

func (i *item) decode(schema *codec.Schema) (any, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.decoded != nil {
		return i.decoded, nil
	}
	event, err := schema.Decode(i.recorded)
	if err != nil {
		return nil, err
	}
	i.decoded = event
	return event, nil
}

func (i *item) open(ctx context.Context, schema *codec.Schema, keys streams.Keys) (any, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.opened != nil {
		return i.opened, nil
	}
	event, err := schema.Open(ctx, keys, i.recorded)
	if err != nil {
		return nil, err
	}
	i.opened = event
	return event, nil
}

func itemsOf(c streams.Commit, key streams.StreamKey) []*item {
	var items []*item
	for _, r := range c.Events {
		if r.Stream == key.Stream {
			items = append(items, &item{recorded: r})
		}
	}
	return items
}
