package policies_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/policies"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

// waitingRuns are a scope's, and no wait.
type waitingRuns []runs.Run

func (w waitingRuns) Waiting(context.Context, domain.Scope, string) ([]runs.Run, error) {
	return w, nil
}

func (waitingRuns) Wait(context.Context, streams.Position, ...string) error { return nil }

// TestASightingResumesWhatWaitedBefore: not what was asked for after it, though the model knows of that already.
func TestASightingResumesWhatWaitedBefore(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	run := func(id string, asked time.Time) runs.Run {
		return runs.Run{ID: id, Thread: "t", Device: "d", Calls: []runs.Call{{Steps: []runs.Step{{Number: 1, Executor: thread.OnDevice, RequestedAt: asked}}}}}
	}
	waiting := waitingRuns{run("before", noon.Add(-time.Second)), run("at once", noon), run("after", noon.Add(time.Microsecond))}
	wishes, err := policies.ResumeRuns(waiting, waiting).React(t.Context(), policies.Event{
		Recorded: streams.Recorded{Scope: user, Stream: domain.NewStream("device", "d"), At: noon.Format(streams.TimeLayout)}, Value: device.Seen{At: noon},
	})
	if err != nil || len(wishes) != 2 || wishes[0].For != "before" || wishes[1].For != "at once" {
		t.Fatalf("%+v, %v", wishes, err)
	}
}
