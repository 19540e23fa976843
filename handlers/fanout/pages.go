package fanout

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

const (
	pageEvents = 256       // how many events a page has at most
	pageBytes  = 512 << 10 // from so many bytes on it ends
	cacheBytes = 32 << 20  // of pages that several may need
)

// page is a piece of a topic that the ring does not have: the events after a cursor, without a gap.
type page struct {
	key    streams.StreamKey
	after  uint64
	events []*Event
	size   int
	source string
}

// has reports whether the page has the event after a cursor.
func (p *page) has(cursor uint64) bool {
	return p.after <= cursor && cursor < p.after+uint64(len(p.events))
}

// pages are those that were read lately: who reconnects together needs the same ones.
type pages struct {
	mu    sync.Mutex
	byKey map[streams.StreamKey][]*list.Element
	order *list.List // the latest used first
	size  int
	grown atomic.Int64 // what their events take beyond size since they were prepared
}

func newPages() *pages {
	return &pages{byKey: map[streams.StreamKey][]*list.Element{}, order: list.New()}
}

// get is a page with the event after a cursor, nil if there is none.
func (c *pages) get(key streams.StreamKey, cursor uint64) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byKey[key] {
		if p := e.Value.(*page); p.has(cursor) {
			c.order.MoveToFront(e)
			return p
		}
	}
	return nil
}

func (c *pages) put(p *page) {
	if len(p.events) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey[p.key] = append(c.byKey[p.key], c.order.PushFront(p))
	c.size += p.size
	for _, e := range p.events {
		e.keep(&c.grown)
	}
	c.evict()
}

// shrink removes what is too much since events were prepared.
func (c *pages) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict()
}

// evict removes those that were used least lately. The caller holds mu.
func (c *pages) evict() {
	for c.size+int(c.grown.Load()) > cacheBytes && c.order.Len() > 0 {
		c.remove(c.order.Back())
	}
}

// drop forgets those of a scope.
func (c *pages) drop(scope domain.Scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, found := range c.byKey {
		if key.Scope != scope {
			continue
		}
		for _, e := range append([]*list.Element(nil), found...) {
			c.remove(e)
		}
	}
}

func (c *pages) remove(e *list.Element) {
	p := c.order.Remove(e).(*page)
	c.size -= p.size
	for _, e := range p.events {
		e.leave()
	}
	left := c.byKey[p.key]
	for i := range left {
		if left[i] == e {
			left[i] = left[len(left)-1]
			left = left[:len(left)-1]
			break
		}
	}
	if len(left) == 0 {
		delete(c.byKey, p.key)
	} else {
		c.byKey[p.key] = left
	}
}
