package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// How often Settle begins anew because another stored meanwhile, and how long it waits before.
const (
	settleTries = 20
	settlePause = 100 * time.Millisecond
)

// Settle brings the stored states of a partition to the end of its log, without leading, and parks what is still to be
// parked: after a close nobody else does. It answers the checkpoint that is stored then. Another that stores at the same
// time is given way to.
func Settle(ctx context.Context, config WriterConfig, partition int32) (streams.Checkpoint, error) {
	if err := config.complete(); err != nil {
		return streams.Checkpoint{}, err
	}
	for try := 1; ; try++ {
		at, err := settle(ctx, config, partition)
		if !errors.Is(err, streams.ErrFlushConflict) {
			return at, err
		}
		if try == settleTries {
			return at, fmt.Errorf("another process stores states of partition %d all the time (end the writers, and try again): %w", partition, err)
		}
		timer := time.NewTimer(settlePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return at, ctx.Err()
		case <-timer.C:
		}
	}
}

func settle(ctx context.Context, config WriterConfig, partition int32) (streams.Checkpoint, error) {
	w := &Writer{config: config, metrics: newWriteMetrics(nil)}
	var err error
	if w.parked, err = w.parkedClient(); err != nil {
		return streams.Checkpoint{}, err
	}
	defer w.parked.Close()
	t := &term{writer: w, config: &w.config, status: newStatus(partition, config.Log), partition: partition}
	if err := t.open(ctx); err != nil {
		return streams.Checkpoint{}, err
	}
	defer t.close()
	if err := t.replay(ctx); err != nil {
		return streams.Checkpoint{}, err
	}
	if err := t.parkOwed(ctx); err != nil {
		return streams.Checkpoint{}, err
	}
	if t.book.at != t.book.stored {
		if err := t.store(ctx); err != nil {
			return streams.Checkpoint{}, err
		}
	}
	return t.book.stored, nil
}
