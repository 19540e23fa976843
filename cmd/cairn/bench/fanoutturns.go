package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
)

// steadyRate is how many events a second so many connections are sent where it is measured how long each takes: so that all
// together get 50,000, and nobody more than 500.
func steadyRate(connections int) float64 { return min(500, 50_000/float64(connections)) }

// windowOf is how many events may be on their way to the slowest where as many are sent as go: as many as centrifuge's default
// queue holds, and not more than the kernel has room for.
func windowOf(connections int) int64 { return int64(max(32, min(512, 400_000/connections))) }

// listening is a crowd and the side that it listens to. Numbers begin at 1.
type listening struct {
	side        side
	crowd       *sockets.Crowd
	connections int
	next        int64 // the number that is published next
}

func (l *listening) order(do string) order {
	o := l.side.subject()
	o.Do = do
	l.next = max(l.next, 1)
	o.From = l.next
	return o
}

// steady publishes at a rate for a while, and measures how long each delivery took.
func (l *listening) steady(ctx context.Context, rate float64, length time.Duration, sample *fanoutSample) error {
	d, err := l.deliveries(ctx, rate, length)
	if err != nil {
		return err
	}
	always := func(sockets.Seen) bool { return true }
	took := d.since(d.committed, always)
	sample.p50, sample.p99 = quantile(took, 0.5), quantile(took, 0.99)
	if len(d.asked) > 0 {
		sample.asked = quantile(d.since(d.asked, always), 0.99)
	}
	return nil
}

// deliveries are events that were published from a number on, and when each came to whom.
type deliveries struct {
	from             int64
	committed, asked []int64
	seen             []sockets.Seen
}

// since is how long each delivery took that is to count, sorted.
func (d deliveries) since(published []int64, counts func(sockets.Seen) bool) []time.Duration {
	took := make([]time.Duration, 0, len(d.seen))
	for _, s := range d.seen {
		if counts(s) {
			took = append(took, time.Duration(max(0, s.At-published[s.Number-d.from])))
		}
	}
	slices.Sort(took)
	return took
}

// deliveries publishes at a rate for a while, until everybody has it.
func (l *listening) deliveries(ctx context.Context, rate float64, length time.Duration) (d deliveries, err error) {
	count := max(1, int64(rate*length.Seconds()))
	l.crowd.Watch(int(count) * l.connections)
	o := l.order(orderPublish)
	o.Count, o.Rate = count, rate
	times, err := l.side.server().ask(ctx, o)
	if err != nil {
		return d, err
	}
	l.next += count
	l.side.published(count)
	if err := l.arrived(ctx); err != nil {
		return d, err
	}
	return deliveries{from: o.From, committed: times.Committed, asked: times.Asked, seen: l.crowd.Watched()}, nil
}

// arrived waits until everybody has everything.
func (l *listening) arrived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return l.crowd.Until(ctx, l.next-1)
}

// flood publishes as fast as the slowest takes it, for a while, and counts the deliveries.
func (l *listening) flood(ctx context.Context, length time.Duration, sample *fanoutSample) error {
	server, window := l.side.server(), windowOf(l.connections)
	o := l.order(orderFlood)
	o.UpTo = l.next + window
	if _, err := server.ask(ctx, o); err != nil {
		return err
	}
	allowed := o.UpTo
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	const warmUp = time.Second
	began := time.Now()
	var from time.Time
	var delivered, used int64
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), l.halt(context.WithoutCancel(ctx)))
		case <-tick.C:
		}
		if err := l.crowd.Err(); err != nil {
			return errors.Join(err, l.halt(ctx))
		}
		if upTo := l.crowd.Slowest() + 1 + window; upTo >= allowed+window/16+1 {
			allowed = upTo
			if err := server.tell(order{Do: orderUpTo, UpTo: upTo}); err != nil {
				return err
			}
		}
		now := time.Now()
		if from.IsZero() && now.Sub(began) >= min(warmUp, length/4) {
			a, err := server.ask(ctx, order{Do: orderCPU})
			if err != nil {
				return err
			}
			from, delivered, used = time.Now(), l.crowd.Delivered(), a.CPU
		}
		if !from.IsZero() && now.Sub(from) >= length {
			break
		}
	}
	a, err := server.ask(ctx, order{Do: orderCPU})
	if err != nil {
		return err
	}
	delivered, used = l.crowd.Delivered()-delivered, a.CPU-used
	sample.rate = float64(delivered) / time.Since(from).Seconds()
	if delivered == 0 {
		return errors.Join(fmt.Errorf("bench: nothing was delivered within %s", length), l.halt(ctx))
	}
	sample.cpu = float64(used) / 1000 / float64(delivered)
	if err := l.halt(ctx); err != nil {
		return err
	}
	return l.arrived(ctx)
}

// halt ends the flood.
func (l *listening) halt(ctx context.Context) error {
	a, err := l.side.server().ask(ctx, order{Do: orderHalt})
	if err != nil {
		return err
	}
	l.side.published(a.Last - l.next)
	l.next = a.Last
	return nil
}
