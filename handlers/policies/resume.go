package policies

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

// Runs are the runs that wait (projections/runs).
type Runs interface {
	Waiting(ctx context.Context, scope domain.Scope, device string) ([]runs.Run, error)
}

// Waiter waits until read models have a position (projections.Waiter).
type Waiter interface {
	Wait(ctx context.Context, p streams.Position, models ...string) error
}

// ResumeRuns is the policy that resumes the runs which waited for a device, when it is seen.
func ResumeRuns(waiting Runs, waiter Waiter) Policy {
	return Policy{
		Name: "resume_runs", Types: []string{"device.seen"},
		React: func(ctx context.Context, e Event) ([]Wish, error) {
			if _, ok := e.Value.(device.Seen); !ok {
				return nil, fmt.Errorf("a %T is no device.seen", e.Value)
			}
			// What the run waits for was decided before the device was seen, and so must be in the model.
			if err := waiter.Wait(ctx, streams.PositionOf(e.Recorded), runs.Name); err != nil {
				return nil, err
			}
			found, err := waiting.Waiting(ctx, e.Scope, e.Stream.ID())
			if err != nil {
				return nil, err
			}
			var wishes []Wish
			for _, r := range found {
				if waited(r, e.Time()) {
					wishes = append(wishes, Wish{For: r.ID, Body: thread.ResumeRun{On: thread.On{Thread: r.Thread}, RunID: r.ID, DeviceID: e.Stream.ID()}})
				}
			}
			return wishes, nil
		},
	}
}

// waited reports whether a run waited for its device already when the device was seen. The model may be further than the
// event, after a restart above all: what is asked for later is nothing that this sighting resumes. A scope's times never
// run backwards.
func waited(r runs.Run, seen time.Time) bool {
	for _, c := range r.Calls {
		if c.EndedAt != nil || len(c.Steps) == 0 {
			continue
		}
		last := c.Steps[len(c.Steps)-1]
		if last.Executor == thread.OnDevice && last.OfferedAt == nil && !last.RequestedAt.After(seen) {
			return true
		}
	}
	return false
}
