package faults

import (
	"context"
	"time"

	"github.com/cairnhq/cairn/migrations"
)

// databases are the faults of Postgres and of the connections to it.
func databases(extent Extent) []Fault {
	between := 8 * time.Second
	if extent == Sample {
		between = 3 * time.Second
	}
	return []Fault{
		{Name: "Postgres killed", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			r.Log.Info("kill -9 the postmaster")
			if err := r.Stage.Database.Kill(); err != nil {
				return 0, err
			}
			return 1, r.databaseUp(ctx)
		}}},
		{Name: "Postgres restarted", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			r.Log.Info("restart Postgres")
			if err := r.Stage.Database.Restart(ctx, nil); err != nil {
				return 0, err
			}
			return 1, r.databaseUp(ctx)
		}}},
		{Name: "Postgres connections terminated", Steps: repeat(times(extent, 3), terminate)},
		{Name: "COMMIT of unknown outcome", Steps: repeat(times(extent, 3), blur)},
		{Name: "Postgres connections cut", Steps: repeat(times(extent, 3), func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.Database.Proxy.Cut()
			r.Log.Info("cut connections to Postgres", "connections", n)
			return n, r.healed(ctx)
		})},
		{Name: "Postgres connections half-open", Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			n := r.Stage.Database.Proxy.Silence()
			r.Log.Info("silence connections to Postgres", "connections", n)
			return n, r.healed(ctx)
		}}},
		{Name: "Postgres restored to an older state", Long: between, Steps: []Step{func(ctx context.Context, r *Ring) (int, error) {
			r.Log.Info("save Postgres")
			if err := r.Stage.Database.Save(ctx); err != nil {
				return 0, err
			}
			if err := r.databaseUp(ctx); err != nil {
				return 0, err
			}
			if err := wait(ctx, between); err != nil {
				return 0, err
			}
			r.Log.Info("put Postgres back to what was saved")
			if err := r.Stage.Database.Restore(ctx); err != nil {
				return 0, err
			}
			return 1, r.databaseUp(ctx)
		}}},
	}
}

func times(extent Extent, whole int) int {
	if extent == Sample {
		return 1
	}
	return whole
}

func repeat(n int, step Step) []Step {
	var all []Step
	for range n {
		all = append(all, step)
	}
	return all
}

func (r *Ring) databaseUp(ctx context.Context) error {
	up, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	if err := r.Stage.Database.Up(up); err != nil {
		return err
	}
	return r.healed(ctx)
}

// terminate ends every connection to both databases, as an operator may.
func terminate(ctx context.Context, r *Ring) (int, error) {
	var count int64
	for _, which := range []migrations.Database{migrations.Read, migrations.Vault} {
		n, err := r.Stage.Database.Exec(ctx, which,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		if err != nil {
			return int(count), err
		}
		count += n
	}
	r.Log.Info("terminated connections to Postgres", "connections", count)
	return int(count), r.healed(ctx)
}

// blur makes the outcome of some COMMITs unknown, half of which were done.
func blur(ctx context.Context, r *Ring) (int, error) {
	before, _ := r.Stage.Database.Proxy.Blurred()
	r.Stage.Database.Proxy.Blur(6, 6)
	limit, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		done, left := r.Stage.Database.Proxy.Blurred()
		if left == 0 || limit.Err() != nil {
			r.Log.Info("COMMITs of unknown outcome", "commits", done-before)
			return done - before, r.healed(ctx)
		}
		if err := wait(limit, 50*time.Millisecond); err != nil && ctx.Err() != nil {
			return done - before, ctx.Err()
		}
	}
}
