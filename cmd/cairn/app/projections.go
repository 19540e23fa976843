package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/work"
)

// Generations are those of all read models.
func (o *Operator) Generations(ctx context.Context) ([]projections.Generation, error) {
	return projections.Generations(ctx, o.read)
}

// Lags are how far the read models are behind the log.
func (o *Operator) Lags(ctx context.Context) ([]projections.Lag, error) {
	return projections.Lags(ctx, o.read)
}

// ProjectionStatus is all that is known of a read model.
func (o *Operator) ProjectionStatus(ctx context.Context, name string) (projections.Status, error) {
	return projections.StatusOf(ctx, o.read, name)
}

// PauseProjection stops feeding a read model, and answers the generations that are not read by themselves any more.
func (o *Operator) PauseProjection(ctx context.Context, name, by string) ([]int, error) {
	cancelled, err := projections.CancelSwaps(ctx, o.read, name)
	if err != nil {
		return nil, err
	}
	return cancelled, projections.Pause(ctx, o.read, name, by)
}

// ResumeProjection goes on with one that was paused or has stopped.
func (o *Operator) ResumeProjection(ctx context.Context, name string) error {
	return projections.Resume(ctx, o.read, name)
}

// SkipEvent steps over the event at which a read model has stopped in a partition.
func (o *Operator) SkipEvent(ctx context.Context, name string, partition int32, by, reason string) (projections.Skipped, error) {
	return projections.Skip(ctx, o.read, Projectors(o.read), name, partition, by, reason)
}

// VerifyProjection compares a new generation with the one that is read.
func (o *Operator) VerifyProjection(ctx context.Context, name string) (projections.Verdict, error) {
	return projections.Verify(ctx, o.read, name)
}

// Other is the generation of a read model that stands beside the one that is read.
func (o *Operator) Other(ctx context.Context, name string) (projections.Generation, error) {
	all, err := projections.Generations(ctx, o.read)
	if err != nil {
		return projections.Generation{}, err
	}
	var others []projections.Generation
	for _, g := range projections.Of(all, name) {
		if !g.Live {
			others = append(others, g)
		}
	}
	switch {
	case len(projections.Of(all, name)) == 0:
		return projections.Generation{}, fmt.Errorf("there is no read model %q: see `cairn projections list`", name)
	case len(others) == 0:
		return projections.Generation{}, fmt.Errorf("%s has one generation, and it is read: make another with `cairn projections rebuild %s`", name, name)
	case len(others) > 1:
		return projections.Generation{}, fmt.Errorf("%s has several generations beside the one that is read: say which, see `cairn projections status %s`", name, name)
	}
	return others[0], nil
}

// Swap lets a generation be read.
func (o *Operator) Swap(ctx context.Context, name string, options projections.SwapOptions) (projections.Exchanged, error) {
	return projections.Swap(ctx, o.read, name, options)
}

// RollbackProjection lets the generation be read that was read before the last swap.
func (o *Operator) RollbackProjection(ctx context.Context, name string) (projections.Exchanged, error) {
	return projections.Rollback(ctx, o.read, name)
}

// DropGeneration deletes a generation that is not read, and answers the others that are not read by themselves any more.
func (o *Operator) DropGeneration(ctx context.Context, name string, number int) ([]int, error) {
	if err := projections.Drop(ctx, o.read, name, number); err != nil {
		return nil, err
	}
	return projections.CancelSwaps(ctx, o.read, name)
}

// everybodyReads refuses a generation that a process which runs can't read: one of a release before.
func everybodyReads(tables *work.Tables) func(context.Context, projections.Generation) error {
	return func(ctx context.Context, g projections.Generation) error {
		all, err := tables.Processes(ctx)
		if err != nil {
			return err
		}
		var cannot []string
		for _, p := range all {
			if !p.Reads(g.Projection, g.Revision) {
				cannot = append(cannot, fmt.Sprintf("%s (%s)", p.Host, p.Version))
			}
		}
		if len(cannot) > 0 {
			return fmt.Errorf("processes run that can't read revision %d of %s: %s: %w", g.Revision, g.Projection, strings.Join(cannot, ", "), errOlderRuns)
		}
		return nil
	}
}

var errOlderRuns = errors.New("end them first, or bring them to this release")

// readRevisions are the newest that this program can read, by model.
func readRevisions(projectors []projections.Projector) map[string]int {
	revisions := map[string]int{}
	for _, p := range projectors {
		revisions[p.Name()] = max(revisions[p.Name()], p.Revision())
	}
	return revisions
}
