package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams/kafka"
)

// readinessWithin is how long the look at what the roles need may take: what does not answer is not ready.
const readinessWithin = 2 * time.Second

// readiness says whether each thing that the roles need is there.
func (a *App) readiness(ctx context.Context) []rest.Check {
	ctx, cancel := context.WithTimeout(ctx, readinessWithin)
	defer cancel()
	checks := []rest.Check{a.pinged(ctx, "database"), a.pinged(ctx, "vault")}
	_, err := a.tailer.End(ctx, 0)
	checks = append(checks, rest.Check{Name: "brokers", Err: err})
	if a.writer != nil {
		checks = append(checks, a.leading()...)
	}
	if a.publisher != nil {
		checks = append(checks, a.publishing()...)
	}
	return append(checks, a.projecting(ctx)...)
}

func (a *App) pinged(ctx context.Context, name string) rest.Check {
	pool := a.infra.read
	if name == "vault" {
		pool = a.infra.vault
	}
	return rest.Check{Name: name, Err: pool.Ping(ctx)}
}

func (a *App) leading() []rest.Check {
	var checks []rest.Check
	for _, s := range a.writer.Stats() {
		check := rest.Check{Name: fmt.Sprintf("writer/%d", s.Partition), Detail: string(s.Phase)}
		if s.Phase == kafka.Leading && s.Waiting != "" {
			check.Err = errors.New("waits for " + s.Waiting)
		}
		checks = append(checks, check)
	}
	return checks
}

// projecting says of every generation how far behind it is, and whether it has stopped or is paused. What has stopped and
// is read makes the process not ready; what an operator paused, or what nobody reads yet, does not.
func (a *App) projecting(ctx context.Context) []rest.Check {
	lags, err := projections.Lags(ctx, a.infra.read)
	if err != nil {
		return []rest.Check{{Name: "projections", Err: err}}
	}
	states, err := projections.List(ctx, a.infra.read)
	if err != nil {
		return []rest.Check{{Name: "projections", Err: err}}
	}
	type place struct {
		projection string
		generation int
		partition  int32
	}
	stops := map[place]*projections.Stopped{}
	for _, s := range states {
		if s.Stopped != nil {
			stops[place{s.Projection, s.Generation, s.Partition}] = s.Stopped
		}
	}
	var checks []rest.Check
	for _, l := range lags {
		check := rest.Check{Name: fmt.Sprintf("projection %s/%d", l.Projection, l.Partition), Detail: behind(l)}
		stopped := stops[place{l.Projection, l.Generation, l.Partition}]
		switch {
		case !l.Live && stopped != nil:
			check.Detail += "; " + stopped.Error()
		case stopped != nil:
			check.Err = stopped
		}
		if !l.Live {
			check.Name += fmt.Sprintf(" generation %d", l.Generation)
		}
		checks = append(checks, check)
	}
	return checks
}

func behind(l projections.Lag) string {
	text := fmt.Sprintf("%d behind", l.Offsets)
	if l.Offsets > 0 {
		text += fmt.Sprintf(", for %.1f s", l.Seconds)
	}
	if l.Paused {
		text += ", paused (`cairn projections resume " + l.Projection + "` lets it go on)"
	}
	return text
}
