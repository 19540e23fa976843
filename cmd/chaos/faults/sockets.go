package faults

import (
	"context"
	"time"
)

// sockets are the faults between clients and the installation.
func sockets(extent Extent) []Fault {
	pause := 5 * time.Second
	return []Fault{
		{Name: "client sockets cut", Steps: repeat(times(extent, 5), func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.API.Cut() + r.Stage.Gate.Cut()
			r.Log.Info("cut the clients' connections", "connections", n)
			return n, wait(ctx, r.between(time.Second, 2*time.Second))
		})},
		{Name: "client sockets half-open", Steps: repeat(times(extent, 2), func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.API.Silence() + r.Stage.Gate.Silence()
			r.Log.Info("silence the clients' connections", "connections", n)
			return n, wait(ctx, pause)
		})},
	}
}

// duplicates has every client send its commands several times at once and in no order.
func duplicates(extent Extent) Fault {
	long := 15 * time.Second
	if extent == Sample {
		long = 4 * time.Second
	}
	return Fault{Name: "duplicated and reordered requests", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		before := r.Load.Repeated()
		r.Load.Mischief(1)
		defer r.Load.Mischief(0)
		err := wait(ctx, long)
		return r.Load.Repeated() - before, err
	}}}
}
