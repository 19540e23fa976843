package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cairnhq/cairn/cmd/chaos/load"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
)

// Ring is what is injured: an installation under load.
type Ring struct {
	Stage *stage.Stage
	Load  *load.Load
	Rand  *rand.Rand
	Log   *slog.Logger
}

// Fault is one way to injure the ring.
type Fault struct {
	Name string
	// Kind is what it has in common with faults that differ in their victim only. Empty: nothing.
	Kind string
	// Long is how long it lasts at least, without healing.
	Long time.Duration
	// Steps are its injections, each of which returns when the ring has healed.
	Steps []Step
	// Apart says that it is a run of its own, and belongs in one only where it is asked for.
	Apart bool
}

// Step injects a fault once. It answers how often it hit.
type Step func(ctx context.Context, r *Ring) (hits int, err error)

// Extent says how much of each fault there is.
type Extent int

// The extents.
const (
	Whole  Extent = iota // everything
	Sample               // one step each, stops of 5 s
)

// All are the faults there are.
func All(extent Extent) []Fault {
	var all []Fault
	for _, role := range stage.Roles() {
		all = append(all, kills(role, extent))
	}
	if extent == Sample {
		all = append(all, stopsOfEach(5*time.Second))
	} else {
		for _, d := range []time.Duration{5 * time.Second, 15 * time.Second} {
			for _, role := range stage.Roles() {
				all = append(all, stops(role, d))
			}
		}
		all = append(all, stopsOfEach(time.Minute))
		for _, role := range stage.Roles() {
			all = append(all, stops(role, time.Minute))
		}
	}
	all = append(all, brokers(extent)...)
	all = append(all, databases(extent)...)
	all = append(all, sockets(extent)...)
	all = append(all, clocks(extent)...)
	return append(all, duplicates(extent), rolling(extent))
}

// healWithin is how long the ring may take to be whole again after an injection.
const healWithin = 2 * time.Minute

// healed waits until every process says that it can work, and every client is answered again.
func (r *Ring) healed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	if err := r.Stage.Ready(ctx); err != nil {
		return err
	}
	return r.Load.Fresh(ctx)
}

// victim is one of a role's processes.
func (r *Ring) victim(role string) *stage.Process {
	of := r.Stage.With(role)
	return of[r.Rand.IntN(len(of))]
}

// between is a time from low to high.
func (r *Ring) between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.Rand.Float64()*float64(high-low))
}

// wait returns after d, or with ctx's error when that ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }
