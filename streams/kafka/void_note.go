package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

// VoidNotes is where the void of one record is noted, for every reader to find.
type VoidNotes interface {
	Note(ctx context.Context) error
	TakeBack(ctx context.Context) error
}

// ErrVoidTooLate is the answer when the writer took the record while it was being voided.
var ErrVoidTooLate = errors.New("the writer took the record while it was being voided, and built on it: nothing was voided")

// Void lets the counted commit at an offset of the log count without events. What the writer has stored is looked at
// before the note and once more after it: a writer that passed the record meanwhile without having read the note has built
// on it, and the note is taken back. One that had read the note has stored an answer without streams.
func (c Config) Void(ctx context.Context, states streams.States, partition int32, offset int64, notes VoidNotes) (*streams.Commit, error) {
	c.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := states.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	commit, err := c.CountedAt(ctx, partition, offset)
	if err != nil {
		return nil, err
	}
	if err := notes.Note(ctx); err != nil {
		return nil, err
	}
	key := streams.CommandKey{Scope: commit.Scope, ID: commit.CommandID}
	found, err := states.Load(ctx, partition, streams.Lookup{Commands: []streams.CommandKey{key}})
	if err != nil {
		return nil, fmt.Errorf("the void is noted, but not whether the writer took the record before (repeat the command): %w", err)
	}
	if found.Checkpoint.Next <= offset {
		return commit, nil
	}
	for _, answer := range found.Answers {
		if answer.Offset == offset && len(answer.Heads) > 0 {
			return nil, errors.Join(fmt.Errorf("partition %d, offset %d: %w", partition, offset, ErrVoidTooLate), notes.TakeBack(ctx))
		}
	}
	return commit, nil
}
