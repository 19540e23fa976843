package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/chaos/faults"
)

// injury injects faults by a plan, for as long as there is time.
type injury struct {
	*runCmd
	ring   *faults.Ring
	models *models
	report *report

	began, deadline time.Time
	turns, planned  int
}

// injure injects one step of each kind of fault, then one of each fault, then the others, then everything again.
func (c *runCmd) injure(ctx context.Context, ring *faults.Ring, m *models, r *report) error {
	all := c.chosen()
	if len(all) == 0 {
		return fmt.Errorf("no fault has %q in its name: see `chaos list`", c.Fault)
	}
	r.quiet(ctx, 3*time.Second)
	i := &injury{runCmd: c, ring: ring, models: m, report: r, began: time.Now()}
	i.deadline = i.began.Add(time.Duration(c.Seconds) * time.Second)
	plan := faults.Plan(all, ring.Rand)
	for _, round := range plan {
		i.planned += len(round)
	}
	for {
		before := i.turns
		for _, round := range plan {
			for _, turn := range round {
				if err := i.take(ctx, turn); err != nil {
					return err
				}
			}
		}
		if c.Sample || i.turns == before {
			break
		}
	}
	r.missed(all)
	return nil
}

// take injects a step, unless it would last beyond the end.
func (i *injury) take(ctx context.Context, turn faults.Turn) error {
	if !i.Sample && time.Now().Add(turn.Long).After(i.deadline) {
		return nil
	}
	from := time.Now()
	hits, err := turn.Step(ctx, i.ring)
	if err != nil {
		return fmt.Errorf("%s: %w", turn.Fault, err)
	}
	i.turns++
	i.report.add(turn.Fault, hits, span{from, time.Now()})
	if n := i.dumps(); len(i.models.taken) < n && i.share() >= float64(len(i.models.taken)+1)/float64(n+1) {
		return i.models.take(ctx, "after "+turn.Fault)
	}
	return nil
}

// dumps is how many of the read models are taken under way, at most. Each is compared in the end, which takes seconds.
func (i *injury) dumps() int {
	if i.Sample {
		return 1
	}
	return 3
}

// share is how much of the run is over.
func (i *injury) share() float64 {
	if i.Sample {
		return float64(i.turns) / float64(i.planned)
	}
	return float64(time.Since(i.began)) / float64(i.deadline.Sub(i.began))
}
