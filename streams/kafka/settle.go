package kafka

import (
	"context"
	"errors"

	"github.com/cairnhq/cairn/streams"
)

// Settle brings the stored states of a partition to the end of its log, without leading: after a close nobody else does.
// It answers the checkpoint that is stored then. Another that stores at the same time is given way to.
func Settle(ctx context.Context, config WriterConfig, partition int32) (streams.Checkpoint, error) {
	if err := config.complete(); err != nil {
		return streams.Checkpoint{}, err
	}
	for {
		at, err := settle(ctx, config, partition)
		if errors.Is(err, streams.ErrFlushConflict) && ctx.Err() == nil {
			continue
		}
		return at, err
	}
}

func settle(ctx context.Context, config WriterConfig, partition int32) (streams.Checkpoint, error) {
	w := &Writer{config: config}
	t := &term{writer: w, config: &w.config, status: newStatus(partition, config.Log), partition: partition}
	if err := t.open(ctx); err != nil {
		return streams.Checkpoint{}, err
	}
	defer t.close()
	if err := t.replay(ctx); err != nil {
		return streams.Checkpoint{}, err
	}
	if t.book.at != t.book.stored {
		if err := t.store(ctx); err != nil {
			return streams.Checkpoint{}, err
		}
	}
	return t.book.stored, nil
}
