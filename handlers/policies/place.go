package policies

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// Places is where policies go on (projections/places).
type Places interface {
	Load(ctx context.Context, policy string, partition int32) (at streams.Checkpoint, ok bool, err error)
	Store(ctx context.Context, policy string, partition int32, at streams.Checkpoint) error
	Hold(ctx context.Context, policy string, partitions int32, do func(ctx context.Context, partition int32) error) error
}

// Begins is where policies began (projections/vault): next, the first time it is asked.
type Begins interface {
	PolicyBegin(ctx context.Context, policy string, era int, partition int32, next int64) (int64, error)
}

// start is where a policy goes on in a partition, and the log offset before which it has no part in anything. A place
// that was lost is found again from the log's first record: only so it is known what counts.
func (s *source) start(ctx context.Context, partition int32) (from streams.Checkpoint, begin int64, err error) {
	at, ok, err := s.config.Places.Load(ctx, s.policy.Name, partition)
	if err != nil {
		return from, 0, err
	}
	end, err := s.config.Tailer.Live(ctx, partition)
	if err != nil {
		return from, 0, fmt.Errorf("the end of partition %d: %w", partition, err)
	}
	if ok && at.Next <= end.Next { // a migration moves places, too; a log that lost its end leaves them beyond it
		return at, 0, nil
	}
	if begin, err = s.config.Begins.PolicyBegin(ctx, s.policy.Name, s.config.Era, partition, end.Next); err != nil {
		return from, 0, fmt.Errorf("where %s began: %w", s.policy.Name, err)
	}
	if begin == end.Next {
		return end, begin, nil
	}
	return streams.Start(), begin, nil
}

// keeper stores a place once in a while.
type keeper struct {
	places    Places
	policy    string
	partition int32
	every     time.Duration

	mu     sync.Mutex
	at     streams.Checkpoint
	stored streams.Checkpoint
	last   time.Time
}

// move notes that everything before a checkpoint is done.
func (k *keeper) move(ctx context.Context, at streams.Checkpoint) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at = at
	if time.Since(k.last) < k.every {
		return nil
	}
	return k.store(ctx)
}

// end stores what is not stored yet.
func (k *keeper) end(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store(ctx)
}

func (k *keeper) store(ctx context.Context) error {
	if k.at == k.stored {
		return nil
	}
	if err := k.places.Store(ctx, k.policy, k.partition, k.at); err != nil {
		return err
	}
	k.stored, k.last = k.at, time.Now()
	return nil
}
