package live

import (
	"context"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections/openeffects"
	asked "github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

// Events are the stored events (projections/events).
type Events interface {
	// Floor answers the version from which on what is stored of a stream is whole; 0: nothing of it was pruned.
	Floor(ctx context.Context, key streams.StreamKey) (uint64, error)
	// After answers the oldest events of a stream after a version.
	After(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error)
	// Run answers the events of a run.
	Run(ctx context.Context, scope domain.Scope, run string) ([]streams.Recorded, error)
	// Head answers the newest position of a scope.
	Head(ctx context.Context, scope domain.Scope) (streams.Position, error)
}

// Changes wakes who waits for a read model (projections.Waiter).
type Changes interface {
	// Changed is closed when the model changes next.
	Changed(model string) <-chan struct{}
	// Wait returns when the models have a position.
	Wait(ctx context.Context, p streams.Position, models ...string) error
}

// Runs are the runs that wait for a device (projections/runs).
type Runs interface {
	Waiting(ctx context.Context, scope domain.Scope, device string) ([]runs.Run, error)
}

// Requests are what devices are asked outside runs (projections/requests).
type Requests interface {
	Get(ctx context.Context, scope domain.Scope, id string) (asked.Request, error)
}

// Effects are the open effects and their claims (projections/openeffects).
type Effects interface {
	Take(ctx context.Context, worker string, kinds, devices []string, limit int) ([]openeffects.Effect, error)
	Release(ctx context.Context, worker string, scope domain.Scope, id string) error
	List(ctx context.Context, scope domain.Scope, limit int) ([]openeffects.Claimed, error)
}

// Work are the tables of workers and of where devices are (projections/work).
type Work interface {
	Touch(ctx context.Context, worker string) error
	Leave(ctx context.Context, worker string) error
	Online(ctx context.Context, scope domain.Scope, device, gateway, socket string, journal bool) error
	Offline(ctx context.Context, scope domain.Scope, device, socket string) error
	Presence(ctx context.Context, scope domain.Scope) ([]work.Presence, error)
	// Outdated are those of the sockets whose device has another one by now.
	Outdated(ctx context.Context, sockets []work.Socket) ([]work.Socket, error)
}
