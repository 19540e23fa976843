package policies

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/cairnhq/cairn/streams"
)

// source is the log as a Watermill subscriber of one policy: one message for each event of the policy's types in a
// counted commit, one of a partition at a time, in order. One that is not taken comes again.
type source struct {
	config  Config
	policy  Policy
	closing context.Context //nolint:containedctx // ends when Close is called
	close   context.CancelFunc
	running sync.WaitGroup
}

var _ message.Subscriber = (*source)(nil)

func newSource(config Config, policy Policy) *source {
	s := &source{config: config, policy: policy}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Subscribe implements message.Subscriber. There is one topic, the log, whatever it is called.
func (s *source) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(s.closing, cancel)
	out := make(chan *message.Message)
	s.running.Go(func() {
		defer close(out)
		defer cancel()
		defer unbind()
		// Hold ends with ctx alone.
		_ = s.config.Places.Hold(ctx, s.policy.Name, s.config.Tailer.Partitions(), func(ctx context.Context, partition int32) error {
			return s.feed(ctx, partition, out)
		})
	})
	return out, nil
}

// Close implements message.Subscriber.
func (s *source) Close() error {
	s.close()
	s.running.Wait()
	return nil
}

// feed hands out a partition's events until ctx ends. What fails is tried again from the place.
func (s *source) feed(ctx context.Context, partition int32, out chan<- *message.Message) error {
	wait := s.config.FirstPause
	for {
		began := time.Now()
		err := s.tail(ctx, partition, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > time.Minute {
			wait = s.config.FirstPause
		}
		s.config.Log.Warn("a policy reads the log again from its place", "policy", s.policy.Name, "partition", partition, "error", err)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, s.config.MaxPause)
	}
}

func (s *source) tail(ctx context.Context, partition int32, out chan<- *message.Message) (err error) {
	from, begin, err := s.start(ctx, partition)
	if err != nil {
		return err
	}
	k := &keeper{places: s.config.Places, policy: s.policy.Name, partition: partition, every: s.config.KeepEvery, stored: from, at: from}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.CloseWithin)
		defer cancel()
		err = errors.Join(err, k.end(ctx))
	}()
	return s.config.Tailer.Tail(ctx, partition, from, func(ctx context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			if c.Place.Offset >= begin {
				if err := s.commit(ctx, c, out); err != nil {
					return err
				}
			}
			if err := k.move(ctx, after(c)); err != nil {
				return err
			}
		}
		return k.move(ctx, b.Next)
	})
}

// after is the checkpoint right after a counted commit: it counts only under the era, lead and writer that it names.
func after(c streams.Commit) streams.Checkpoint {
	return streams.Checkpoint{
		Next: c.Place.Offset + 1,
		Acceptance: streams.Acceptance{
			Era: c.Era, Lead: c.Lead, Writer: c.Writer, After: streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset},
		},
	}
}

func (s *source) commit(ctx context.Context, c streams.Commit, out chan<- *message.Message) error {
	for _, r := range c.Events {
		if slices.Contains(s.policy.Types, r.Type) {
			if err := s.deliver(ctx, r, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver hands an event out until it is taken.
func (s *source) deliver(ctx context.Context, r streams.Recorded, out chan<- *message.Message) error {
	for wait := s.config.FirstPause; ; wait = min(2*wait, s.config.MaxPause) {
		taken, err := s.offer(ctx, r, out)
		if taken || err != nil {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

func (s *source) offer(ctx context.Context, r streams.Recorded, out chan<- *message.Message) (taken bool, err error) {
	m, err := messageOf(s.policy.Name, r)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.SetContext(ctx)
	select {
	case out <- m:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case <-m.Acked():
		return true, nil
	case <-m.Nacked():
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
