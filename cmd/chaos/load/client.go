package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// client is one program of a user: it sends one command at a time, and repeats each until it is told what became of it.
type client struct {
	*user
	name string
	rand *rand.Rand
	n    int
	dear bool // it also starts runs

	turns     atomic.Int64 // commands that it has settled
	following sync.WaitGroup
}

// run sends commands until ctx ends; what was sent by then is settled within hard.
func (c *client) run(ctx, hard context.Context) {
	defer c.following.Wait()
	for ctx.Err() == nil {
		c.n++
		if m := c.load.mischief(); m > 0 && c.rand.Float64() < m {
			c.twins(hard)
		} else if next, ok := c.next(); ok {
			c.settle(hard, next, time.Now())
		}
		wait(ctx, time.Duration(c.rand.ExpFloat64()*float64(c.load.pace)))
	}
}

// next chooses a command.
func (c *client) next() (command, bool) {
	key := fmt.Sprintf("%s-%d", c.name, c.n)
	switch at := c.rand.Float64(); {
	case at < 0.15:
		return command{method: "POST", path: "/api/v1/threads", key: key, body: []byte("{}")}, true
	case at < 0.20: // of a thread that nobody opened: rejected, and that is in the log, too
		return c.rename(key, "nobody-opened-this"), true
	case at < 0.28: // asked before: the same answer
		return c.earlier(c.rand.Float64())
	case at < 0.32: // another request under a used id
		old, ok := c.earlier(c.rand.Float64())
		old.body, old.follow = []byte(fmt.Sprintf(`{"title":"another request under %s"}`, key)), alone
		old.method, old.path = "PATCH", "/api/v1/threads/nobody-opened-this"
		return old, ok
	case at < 0.40 && c.dear:
		return c.chat(key), true
	default:
		of, ok := c.thread(c.rand.Float64())
		return c.rename(key, of), ok
	}
}

func (c *client) rename(key, of string) command {
	return command{method: "PATCH", path: "/api/v1/threads/" + of, key: key, body: []byte(fmt.Sprintf(`{"title":"title %s"}`, key)), of: of}
}

// chat starts a run in a new thread; what the answer's thread is follows from the command's id.
func (c *client) chat(key string) command {
	return command{
		method: "POST", path: "/api/v1/chat", key: key, body: []byte(fmt.Sprintf(`{"message":"hello, this is %s"}`, key)),
		of: streams.Derive(streams.CommandID(c.scope, key), "thread"), follow: begun,
	}
}

// settle sends a command, which was first sent at began, until it is decided. A run that it starts is followed to its end
// meanwhile.
func (c *client) settle(ctx context.Context, next command, began time.Time) {
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		t := c.send(ctx, c.name, next)
		if t.ending == accepted || t.ending == rejected {
			c.turns.Add(1)
			if t.code != domain.CodeIDReused { // which is no decision on this command
				c.load.decided(streams.CommandKey{Scope: c.scope, ID: streams.CommandID(c.scope, next.key)}, began)
				c.remember(next, t)
			}
			if t.ending == accepted && !t.whole {
				c.following.Go(func() { c.toEnd(ctx, next) })
			}
			return
		}
		wait(ctx, time.Duration((0.5+c.rand.Float64())*float64(pause)))
		pause = min(2*pause, time.Second)
	}
	c.load.undecided(next)
}

// toEnd asks for a run again until its end was told.
func (c *client) toEnd(ctx context.Context, next command) {
	next.follow = ended
	for ctx.Err() == nil {
		if t := c.send(ctx, c.name, next); t.whole {
			return
		}
		wait(ctx, time.Second)
	}
	c.load.undecided(next)
}

// twins sends two new commands, each of them several times at once and in no order, as a network that repeats and reorders
// does; then it settles both.
func (c *client) twins(ctx context.Context) {
	of, ok := c.thread(c.rand.Float64())
	if !ok {
		return
	}
	first := c.rename(fmt.Sprintf("%s-%d-a", c.name, c.n), of)
	second := c.rename(fmt.Sprintf("%s-%d-b", c.name, c.n), of)
	all := []command{first, second, first, second, first}
	c.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { c.send(ctx, fmt.Sprintf("%s copy %d", c.name, i), one) })
	}
	group.Wait()
	c.load.mischiefDone(len(all) - 2)
	c.settle(ctx, second, began)
	c.settle(ctx, first, began)
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
