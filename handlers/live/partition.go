package live

import (
	"sync"

	"github.com/cairnhq/cairn/streams"
)

// The ring of recent commits: what a stored snapshot lacks is almost always in it.
const (
	ringCommits = 4096
	ringBytes   = 16 << 20
)

// partition is the hub's reader of one partition.
type partition struct {
	number  int32
	ready   chan struct{} // closed when next is known
	reading chan struct{} // a semaphore for reads of the older log

	mu      sync.Mutex
	next    streams.Checkpoint // everything before it was handed on
	ring    []*commit          // the newest, in order
	bytes   int
	from    int64 // the ring has every commit from this offset on
	watches map[streams.StreamKey]map[*watch]struct{}
}

// commit is a commit in the ring.
type commit struct {
	offset int64
	bytes  int
	items  []*item
}

func (p *partition) begin(end streams.Checkpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.from = end, end.Next
	close(p.ready)
}

func (p *partition) checkpoint() streams.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// take hands a batch on to who watches, and tells how many events of a commit were handed to how many.
func (p *partition) take(b streams.Batch, told func(c *streams.Commit, watched int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range b.Commits {
		if c.Place.Offset < p.next.Next {
			continue // a read that began again
		}
		kept, watched := &commit{offset: c.Place.Offset}, 0
		for _, r := range c.Events {
			i := &item{recorded: r}
			kept.items = append(kept.items, i)
			kept.bytes += len(r.Data) + len(r.Sealed) + 512
			for w := range p.watches[streams.StreamKey{Scope: r.Scope, Stream: r.Stream}] {
				w.push(arrival{item: i})
				watched++
			}
		}
		p.keep(kept)
		told(&c, watched)
	}
	p.next = b.Next
}

func (p *partition) keep(c *commit) {
	p.ring = append(p.ring, c)
	p.bytes += c.bytes
	drop := 0
	for len(p.ring)-drop > ringCommits || (p.bytes > ringBytes && drop < len(p.ring)) {
		p.bytes -= p.ring[drop].bytes
		p.from = p.ring[drop].offset + 1
		p.ring[drop] = nil
		drop++
	}
	p.ring = p.ring[drop:]
}

// recent are a stream's events in [from, to), if the ring has all of them.
func (p *partition) recent(key streams.StreamKey, from, to int64) ([]*item, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from >= to {
		return nil, true
	}
	if from < p.from {
		return nil, false
	}
	var items []*item
	for _, c := range p.ring {
		if c.offset < from || c.offset >= to {
			continue
		}
		for _, i := range c.items {
			if i.recorded.Scope == key.Scope && i.recorded.Stream == key.Stream {
				items = append(items, i)
			}
		}
	}
	return items, true
}
