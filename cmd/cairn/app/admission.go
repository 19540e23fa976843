package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/cairnhq/cairn/cmd/cairn/pressure"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// measure is how the process knows the pressure on its writes: the disk, the events read model, the writer's store.
func (a *App) measure() pressure.Config {
	c := pressure.Config{Read: a.readings}
	if a.infra.embedded != nil {
		c.Disk = a.infra.embedded.Free
	}
	return c
}

func (a *App) readings(ctx context.Context) ([]pressure.Reading, error) {
	states, err := projections.List(ctx, a.infra.read)
	if err != nil {
		return nil, err
	}
	var readings []pressure.Reading
	for _, s := range states {
		if s.Projection == events.Name && s.Live {
			readings = append(readings, pressure.Reading{
				Partition: s.Partition, Follower: "the events read model", Next: s.Checkpoint.Next, End: s.End, Stopped: s.Stopped != nil,
			})
		}
	}
	for partition := range a.tailer.Partitions() {
		stored, err := a.infra.kafka.Stored(ctx, partition)
		if err != nil {
			return nil, err
		}
		end, err := a.tailer.End(ctx, partition)
		if err != nil {
			return nil, err
		}
		readings = append(readings, pressure.Reading{Partition: partition, Follower: "the writer's store", Next: stored.Next, End: end})
	}
	return readings, nil
}

// admission bounds how many requests a user may send over sockets.
type admission struct {
	now     func() time.Time
	rate    float64
	burst   int
	buckets *lru.Cache[domain.Scope, *rate.Limiter]
}

func newAdmission(c Config) *admission {
	buckets, err := lru.New[domain.Scope, *rate.Limiter](10_000)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &admission{now: c.now(), rate: cmp.Or(c.CommandRate, 20), burst: cmp.Or(c.CommandBurst, 40), buckets: buckets}
}

func (a *admission) admit(scope domain.Scope) error {
	fresh := rate.NewLimiter(rate.Limit(a.rate), a.burst)
	bucket, ok, _ := a.buckets.PeekOrAdd(scope, fresh)
	if !ok {
		bucket = fresh
	}
	a.buckets.Get(scope) // counts as used
	if bucket.AllowN(a.now(), 1) {
		return nil
	}
	return &streams.Busy{Reason: fmt.Sprintf("too many requests: at most %g a second", a.rate), RetryAfter: time.Second}
}
