package faults

import (
	"context"
	"time"
)

// sockets are the faults between clients and the installation.
func sockets(extent Extent) []Fault {
	all := []Fault{
		{Name: "client sockets cut", Steps: repeat(times(extent, 5), func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.API.Cut() + r.Stage.Gate.Cut()
			r.Log.Info("cut the clients' connections", "connections", n)
			return n, r.healed(ctx)
		})},
		{Name: "client sockets half-open, devices leave", Long: 3 * time.Second, Steps: repeat(times(extent, 2), func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.API.Silence() + r.Stage.Gate.Silence()
			r.Log.Info("silence the clients' connections; after a while devices come by others", "connections", n)
			if err := wait(ctx, 3*time.Second); err != nil {
				return n, err
			}
			r.Load.Reconnect() // the gateway still believes in the old ones
			return n, r.healed(ctx)
		})},
	}
	if extent == Sample {
		return all
	}
	return append(all, Fault{Name: "client sockets half-open, both ends must notice", Long: noticed, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		n := r.Stage.API.Silence() + r.Stage.Gate.Silence()
		r.Log.Info("silence the clients' connections", "connections", n)
		if err := wait(ctx, noticed); err != nil {
			return n, err
		}
		return n, r.healed(ctx)
	}}})
}

// noticed is after how long a device takes a socket for dead on which it hears nothing, and a little more.
const noticed = 80 * time.Second

// duplicates has every client send its commands several times at once and in no order.
func duplicates(extent Extent) Fault {
	long := 15 * time.Second
	if extent == Sample {
		long = 4 * time.Second
	}
	return Fault{Name: "duplicated and reordered requests", Long: long, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		before := r.Load.Repeated()
		r.Load.Mischief(1)
		defer r.Load.Mischief(0)
		if err := wait(ctx, long); err != nil {
			return r.Load.Repeated() - before, err
		}
		r.Load.Mischief(0)
		err := r.healed(ctx) // the next fault is not to hit copies of this one's
		return r.Load.Repeated() - before, err
	}}}
}
