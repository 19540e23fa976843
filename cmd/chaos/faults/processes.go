package faults

import (
	"context"
	"time"

	"github.com/cairnhq/cairn/cmd/chaos/stage"
)

// kills ends a process of a role at once, at each step of a run.
func kills(role string, extent Extent) Fault {
	f := Fault{Name: "kill -9 " + role, Kind: "kill -9"}
	if extent == Sample {
		f.Steps = []Step{func(ctx context.Context, r *Ring) (int, error) {
			all := moments()
			return 1, r.kill(ctx, role, all[r.Rand.IntN(len(all))])
		}}
		return f
	}
	for _, m := range moments() {
		f.Steps = append(f.Steps, func(ctx context.Context, r *Ring) (int, error) { return 1, r.kill(ctx, role, m) })
	}
	return f
}

// kill kills one at a moment, and starts it again a little later.
func (r *Ring) kill(ctx context.Context, role string, m moment) error {
	p := r.victim(role)
	r.Log.Info("kill -9", "process", p.String(), "when", m.name)
	if err := r.at(ctx, m, func() error { p.Kill(); return nil }); err != nil {
		return err
	}
	if err := wait(ctx, r.between(100*time.Millisecond, time.Second)); err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	return r.healed(ctx)
}

// stops has a process of a role hear and do nothing for a while, from a step of a run on, and then go on as if no time had
// passed.
func stops(role string, d time.Duration) Fault {
	return Fault{Name: "SIGSTOP " + seconds(d) + " " + role, Kind: "SIGSTOP " + seconds(d), Long: d, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		all := moments()
		m := all[r.Rand.IntN(len(all))]
		p := r.victim(role)
		r.Log.Info("SIGSTOP", "process", p.String(), "when", m.name, "for", d)
		return 1, r.stop(ctx, m, d, p)
	}}}
}

// stopsOfEach does that to one of each role at once.
func stopsOfEach(d time.Duration) Fault {
	return Fault{Name: "SIGSTOP " + seconds(d) + " one of each role", Kind: "SIGSTOP " + seconds(d), Long: d, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		var victims []*stage.Process
		for _, role := range stage.Roles() {
			victims = append(victims, r.victim(role))
		}
		all := moments()
		m := all[r.Rand.IntN(len(all))]
		r.Log.Info("SIGSTOP", "processes", victims, "when", m.name, "for", d)
		return len(victims), r.stop(ctx, m, d, victims...)
	}}}
}

func (r *Ring) stop(ctx context.Context, m moment, d time.Duration, victims ...*stage.Process) error {
	resume := func() error {
		for _, p := range victims {
			if err := p.Resume(); err != nil {
				return err
			}
		}
		return nil
	}
	err := r.at(ctx, m, func() error {
		for _, p := range victims {
			if err := p.Pause(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := wait(ctx, d); err != nil {
		return err
	}
	if err := resume(); err != nil {
		return err
	}
	return r.healed(ctx)
}

// KillsOfEach kills one of each role every so often, for as long as ctx lasts.
func KillsOfEach(every time.Duration) Fault {
	return Fault{Name: "kill -9 one of each role every " + seconds(every), Apart: true, Long: every, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		began := time.Now()
		var victims []*stage.Process
		for _, role := range stage.Roles() {
			victims = append(victims, r.victim(role))
		}
		r.Log.Info("kill -9", "processes", victims)
		for _, p := range victims {
			p.Kill()
		}
		if err := wait(ctx, time.Second); err != nil {
			return len(victims), err
		}
		for _, p := range victims {
			if err := p.Start(); err != nil {
				return len(victims), err
			}
		}
		if err := r.healed(ctx); err != nil {
			return len(victims), err
		}
		return len(victims), wait(ctx, max(0, every-time.Since(began)))
	}}}
}

// rolling ends and starts each process in turn, in good order, as a new release is rolled out.
func rolling(extent Extent) Fault {
	return Fault{Name: "rolling restart", Long: 20 * time.Second, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		n := 0
		for _, p := range r.Stage.Processes {
			if extent == Sample && p.Index > 1 {
				continue
			}
			r.Log.Info("restart in good order", "process", p.String())
			p.Stop()
			if err := p.Start(); err != nil {
				return n, err
			}
			n++
			ready, cancel := context.WithTimeout(ctx, healWithin)
			err := p.Ready(ready)
			cancel()
			if err != nil {
				return n, err
			}
		}
		return n, r.healed(ctx)
	}}}
}
