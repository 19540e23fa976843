package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/migrations"
)

// clocks are clocks that jump by an hour and back: the database's, on which timers and the life of workers hang, and a
// process's own, with which a writer stamps.
func clocks(extent Extent) []Fault {
	long := 10 * time.Second
	if extent == Sample {
		long = 3 * time.Second
	}
	all := []Fault{{Name: "database clock +1 h and back", Long: long, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
		return r.jump(ctx, long)
	}}}}
	roles := []string{"writer"}
	if extent == Whole {
		roles = stage.Roles()
	}
	for _, role := range roles {
		all = append(all, Fault{Name: "process clock +1 h and back " + role, Kind: "process clock +1 h and back", Long: 2 * long, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			return r.skew(ctx, r.victim(role), long)
		}}})
	}
	return all
}

// jump moves the database's clock ahead, has a worker die there, and moves it back: what that worker claimed must not wait
// for an hour.
func (r *Ring) jump(ctx context.Context, long time.Duration) (int, error) {
	r.Log.Info("shift the database's clock", "by", time.Hour)
	if err := r.shift(ctx, time.Hour); err != nil {
		return 0, err
	}
	if err := wait(ctx, long); err != nil {
		return 1, err
	}
	p := r.victim(app.RoleEffects)
	r.Log.Info("kill -9", "process", p.String())
	p.Kill()
	r.Log.Info("shift the database's clock back")
	if err := r.shift(ctx, 0); err != nil {
		return 1, err
	}
	if err := p.Start(); err != nil {
		return 2, err
	}
	return 2, r.healed(ctx)
}

// shift moves the one clock of SQL.
func (r *Ring) shift(ctx context.Context, by time.Duration) error {
	_, err := r.Stage.Database.Exec(ctx, migrations.Read, fmt.Sprintf(`CREATE OR REPLACE FUNCTION cairn_now() RETURNS timestamptz
		LANGUAGE sql STABLE PARALLEL SAFE
		AS 'SELECT statement_timestamp() + interval ''%d microseconds'''`, by.Microseconds()))
	return err
}

// skew runs a process with a clock that can be moved, moves it an hour ahead while it works, and back again.
func (r *Ring) skew(ctx context.Context, p *stage.Process, long time.Duration) (int, error) {
	r.Log.Info("shift a process's clock", "process", p.String())
	p.Stop()
	if err := p.StartClocked(); err != nil {
		return 0, err
	}
	if err := r.healed(ctx); err != nil {
		return 0, err
	}
	for _, by := range []time.Duration{time.Hour, 0} {
		if err := p.Shift(by); err != nil {
			return 1, err
		}
		if err := wait(ctx, long); err != nil {
			return 1, err
		}
	}
	p.Stop()
	if err := p.Start(); err != nil {
		return 2, err
	}
	return 2, r.healed(ctx)
}
