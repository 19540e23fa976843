package app

import (
	"context"
	"errors"

	"github.com/cairnhq/cairn/cmd/cairn/prune"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
)

// LookAtPruning says what PruneEvents would delete.
func (o *Operator) LookAtPruning(ctx context.Context, options prune.Options) (prune.Found, error) {
	if err := threadsFold(&options); err != nil {
		return prune.Found{}, err
	}
	return prune.Look(ctx, o.read, options)
}

// PruneEvents deletes the history of quiet threads from the read model of events.
func (o *Operator) PruneEvents(ctx context.Context, options prune.Options) (prune.Found, error) {
	if err := threadsFold(&options); err != nil {
		return prune.Found{}, err
	}
	return prune.Prune(ctx, o.read, options)
}

func threadsFold(options *prune.Options) error {
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return err
	}
	a, ok := schema.Aggregate("thread")
	if !ok {
		return errors.New("this program has no threads")
	}
	options.Fold = a.Fold
	return nil
}
