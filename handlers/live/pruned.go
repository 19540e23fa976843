package live

import (
	"context"
	"fmt"
)

// CodePruned is how the story of a run ends of which events were deleted from what is stored.
const CodePruned = "pruned"

// skip goes on at the next version that is stored, where those before it were pruned: that is no hole. A run that lies
// there ended long ago; what is left of it would be a part told as the whole.
func (f *follower) skip(ctx context.Context, next uint64, give func(Output) bool) error {
	if next <= f.after+1 {
		return nil
	}
	if next > f.floor {
		var err error
		if f.floor, err = f.events.Floor(ctx, f.watch.key); err != nil {
			return fmt.Errorf("live: what was pruned of %s: %w", f.watch.key.Stream, err)
		}
	}
	if f.posted > 0 && f.posted < f.floor {
		failure := &Failure{Code: CodePruned, Message: "the events of this run were deleted from the read model; the log has them"}
		if !all(f.story.end(failure), give) {
			return errStopped
		}
		return nil
	}
	if next <= f.floor {
		f.after = next - 1
	}
	return nil // above the floor it is a hole
}
