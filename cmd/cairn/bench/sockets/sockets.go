// Package sockets opens many WebSockets and counts what comes on them, with as little work of its own as it can: one thread, one
// read buffer, no decoding. It is a benchmark's client, the same for whatever is measured, and no client of anything else.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Call is how one socket is opened: where, and what is said on it until the server has answered with what is awaited.
type Call struct {
	Address string   // host:port
	Path    string   // with its query
	Header  []string // lines, such as "Authorization: Bearer …"
	Say     []string // frames, one after the other
	Await   string   // a piece of what the server says when the socket is level
	Refused string   // a piece of what it says when it never will be
	// Window bounds what the kernel keeps unread for the socket, in bytes; 0 leaves it to the kernel.
	Window int
}

// Seen is an event that came on a socket.
type Seen struct {
	Number int64
	At     int64 // Unix nanoseconds
	Socket int32
}

// Crowd is sockets that are read. Open opens them, and Close closes them. Between, its methods are safe for concurrent use.
type Crowd struct {
	sockets []*socket
	poll    *poll
	reading sync.WaitGroup
	ending  atomic.Bool

	delivered atomic.Int64
	slowest   atomic.Int64 // events of the socket that has the fewest
	failed    atomic.Pointer[error]

	seenMu sync.Mutex
	watch  bool
	seen   []Seen
}

// Open opens a socket for each call, at most so many at once, and returns when all are level.
func Open(ctx context.Context, calls []Call, together int) (*Crowd, error) {
	if err := enough(len(calls)); err != nil {
		return nil, err
	}
	p, err := newPoll()
	if err != nil {
		return nil, err
	}
	c := &Crowd{poll: p, sockets: make([]*socket, len(calls))}
	c.reading.Go(c.read)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for i, call := range calls {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s, err := dial(call)
			if err != nil {
				return fmt.Errorf("bench: socket %d of %d: %w", i+1, len(calls), err)
			}
			s.number = int32(i)
			c.sockets[i] = s
			c.delivered.Add(s.had.events)
			return c.poll.add(s)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes all sockets and returns when nothing is read any more.
func (c *Crowd) Close() error {
	if c.ending.Swap(true) {
		return nil
	}
	c.reading.Wait()
	for _, s := range c.sockets {
		if s != nil {
			s.close()
		}
	}
	return c.poll.close()
}

// Delivered is how many events came on all sockets together.
func (c *Crowd) Delivered() int64 { return c.delivered.Load() }

// Slowest is how many events came on the socket that has the fewest.
func (c *Crowd) Slowest() int64 { return c.slowest.Load() }

// Err is what a socket died of; none may while it is measured.
func (c *Crowd) Err() error {
	if failed := c.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Until waits until every socket has so many events.
func (c *Crowd) Until(ctx context.Context, events int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for c.Slowest() < events {
		if err := c.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench: the slowest of %d sockets has %d of %d events: %w", len(c.sockets), c.Slowest(), events, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Watch keeps the time of every event from now on, for at most about so many; Watched answers them and ends it.
func (c *Crowd) Watch(about int) {
	c.seenMu.Lock()
	defer c.seenMu.Unlock()
	c.watch, c.seen = true, make([]Seen, 0, about)
}

// Watched ends Watch.
func (c *Crowd) Watched() []Seen {
	c.seenMu.Lock()
	defer c.seenMu.Unlock()
	seen := c.seen
	c.watch, c.seen = false, nil
	return seen
}

// Exact says of a crowd that is closed whether every socket had every number in [from, to) exactly once since it was opened, and nothing else. Ordered
// asks for their order, too.
func (c *Crowd) Exact(from, to int64, order Order) error {
	want := tally{}
	for n := from; n < to; n++ {
		want.add(n)
	}
	for i, s := range c.sockets {
		switch {
		case s.had.events != want.events || s.had.sum != want.sum || s.had.mixed != want.mixed:
			return fmt.Errorf("bench: socket %d had %d events of %d, or others", i+1, s.had.events, want.events)
		case order == Ordered && s.had.disordered > 0:
			return fmt.Errorf("bench: socket %d had %d events out of order", i+1, s.had.disordered)
		}
	}
	return nil
}

// Order is whether numbers have to come in order.
type Order int

// The orders.
const (
	AnyOrder Order = iota // they were written by many at once
	Ordered
)

func (c *Crowd) fail(err error) { c.failed.CompareAndSwap(nil, &err) }

// read is the one thread that reads all sockets.
func (c *Crowd) read() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buffer := make([]byte, keep+256<<10)
	counted := time.Now()
	for !c.ending.Load() {
		ready, err := c.poll.wait()
		if err != nil {
			c.fail(err)
			return
		}
		c.seenMu.Lock()
		for _, s := range ready {
			before := s.had.events
			if err := s.read(buffer, c); err != nil {
				c.poll.remove(s)
				c.fail(fmt.Errorf("bench: socket %d: %w", s.number+1, err))
			}
			c.delivered.Add(s.had.events - before)
		}
		c.seenMu.Unlock()
		if now := time.Now(); now.Sub(counted) > time.Millisecond {
			counted = now
			c.count()
		}
	}
}

// count finds the slowest, once all are there.
func (c *Crowd) count() {
	all := c.poll.all()
	if len(all) < len(c.sockets) {
		return
	}
	least := int64(math.MaxInt64)
	for _, s := range all {
		least = min(least, s.had.events)
	}
	c.slowest.Store(least)
}
