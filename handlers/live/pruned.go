package live

import (
	"context"
	"fmt"
)

// CodePruned is how the story of a run ends of which events were deleted from what is stored.
const CodePruned = "pruned"

// deleted reports whether a run that lies further back was pruned. What is still in memory of it is not told either: it was
// deleted, and the next process could not tell it. Where that can't be known now the story goes on.
func (f *follower) deleted(ctx context.Context, head uint64) bool {
	if f.posted == 0 || head <= f.posted || f.after >= f.posted {
		return false
	}
	floor, err := f.Events.Floor(ctx, f.key)
	return err == nil && f.posted < floor
}

// skip goes on behind what was pruned: that is no hole. A run that lies there ended long ago; what is left of it would be
// a part told as the whole.
func (f *follower) skip(ctx context.Context, give func(Output) bool) error {
	floor, err := f.Events.Floor(ctx, f.key)
	if err != nil {
		return fmt.Errorf("live: what was pruned of %s: %w", f.key.Stream, err)
	}
	if f.posted > 0 && f.posted < floor {
		failure := &Failure{Code: CodePruned, Message: "the events of this run were deleted from the read model; the log has them"}
		if !all(f.story.end(failure), give) {
			return errUnheard
		}
		return nil
	}
	if floor <= f.after+1 {
		return fmt.Errorf("live: following %s after %d: what comes next was pruned, and the floor is %d", f.key.Stream, f.after, floor)
	}
	f.after = floor - 1
	return nil
}
