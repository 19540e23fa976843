package app

import (
	"context"

	"github.com/cairnhq/cairn/cmd/cairn/export"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Export writes a range of the log of a running Cairn, and answers how many events that were.
func Export(ctx context.Context, config Config, o export.Options) (n int64, err error) {
	if o.Schema, err = codec.New(aggregates.All()...); err != nil {
		return 0, err
	}
	log, err := config.kafka()
	if err != nil {
		return 0, err
	}
	voided, closing, err := config.voided(ctx, log.Topics.CurrentEra())
	if err != nil {
		return 0, err
	}
	defer closing()
	log.Voided = voided
	tailer, err := kafka.NewTailer(log)
	if err != nil {
		return 0, err
	}
	defer tailer.Close()
	o.Tailer = tailer
	return export.Run(ctx, o)
}
