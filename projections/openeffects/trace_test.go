package openeffects_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

// An intent is acted on in the trace of what appended it, also by a worker that starts later; and where the table of the
// revision before is still read, without one.
func TestAnIntentKeepsItsTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		projector func(*openeffects.Model) projections.Projector
		want      string
	}{
		"this revision":       {(*openeffects.Model).Projector, parent},
		"the revision before": {(*openeffects.Model).Previous, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := pgtest.Read(t)
			f := fixture{pool: pool, log: logtest.New(1), model: openeffects.New(projections.NewDB(pool)), work: work.New(pool)}
			logtest.Project(t, pool, f.log, c.projector(f.model))
			f.log.AppendRaw(ann, func(c *streams.Commit) {
				c.Trace = parent
				for i := range c.Events {
					c.Events[i].Trace = parent
				}
			}, logtest.Post(stream, "run", "laptop")...)
			logtest.Wait(t, pool, f.log, openeffects.Name)
			f.caughtUp(t)
			listed, err := f.model.List(t.Context(), ann, 10)
			if err != nil || len(listed) != 1 || listed[0].Trace != c.want {
				t.Fatalf("listed %+v (%v), wanted the trace %q", listed, err, c.want)
			}
			taken, err := f.model.Take(t.Context(), "worker", []string{thread.EffectRoute}, nil, 10)
			if err != nil || len(taken) != 1 || taken[0].Trace != c.want {
				t.Fatalf("took %+v (%v), wanted the trace %q", taken, err, c.want)
			}
			if _, err := f.model.Abandoned(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		})
	}
}
