package app

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// maxBehind is how many commits the events read model may be behind, while it runs, before users' commands
// are refused: at 50,000 events a second it is level again within seconds.
const maxBehind = 100_000

// pressure knows whether users' commands must be refused for a while: the disk is nearly full, or the events
// read model runs and is far behind. One that has stopped alarms elsewhere and refuses nothing.
type pressure struct {
	infra *infra
	now   func() time.Time

	mu   sync.Mutex
	busy map[int32]*streams.Busy
	seen map[int32]int64 // the events model's place when it was looked at last
}

func newPressure(in *infra, now func() time.Time) *pressure {
	return &pressure{infra: in, now: now, busy: map[int32]*streams.Busy{}, seen: map[int32]int64{}}
}

// Admit answers *streams.Busy where a command must not be sent now.
func (p *pressure) Admit(_ context.Context, partition int32) error {
	if p.infra.embedded != nil {
		if err := p.infra.embedded.Free(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if busy := p.busy[partition]; busy != nil {
		return busy
	}
	return nil
}

// Run looks once a second.
func (p *pressure) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			states, err := projections.List(ctx, p.infra.read)
			if err == nil {
				p.look(states)
			}
		}
	}
}

func (p *pressure) look(states []projections.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range states {
		if s.Projection != events.Name || !s.Live {
			continue
		}
		running := s.Stopped == nil && s.Checkpoint.Next > p.seen[s.Partition]
		p.seen[s.Partition] = s.Checkpoint.Next
		if running && s.Lag() > maxBehind {
			p.busy[s.Partition] = &streams.Busy{
				Reason:     fmt.Sprintf("the events read model is %d commits behind", s.Lag()),
				RetryAfter: 2 * time.Second,
			}
			continue
		}
		delete(p.busy, s.Partition)
	}
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
