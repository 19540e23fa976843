// Package pressure says when users' commands must be refused for a while: the disk is nearly full, or what follows
// the log runs and is far behind. It refuses nothing because of something that stands still: that alarms
// elsewhere, and refusing writes would not bring it back.
package pressure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// MaxBehind is how many commits a follower may be behind.
const MaxBehind = 20_000

// Reading is how far a follower of a partition is.
type Reading struct {
	Partition int32
	Follower  string // such as "the events read model"
	Next      int64  // the log offset it reads next
	End       int64  // the log's end
	Stopped   bool   // it has stopped at an event, and says so itself
}

// Config is where readings come from.
type Config struct {
	// Disk answers *streams.Busy when the disk is nearly full; nil: there is none of ours.
	Disk func() error
	// Read answers how far everything is now.
	Read func(context.Context) ([]Reading, error)
	// Every is the time between readings. 0: 1 s.
	Every time.Duration
}

// Pressure remembers the last readings. It is safe for concurrent use.
type Pressure struct {
	config Config

	mu   sync.Mutex
	busy map[int32]*streams.Busy
	seen map[follower]int64 // its place at the reading before
}

type follower struct {
	partition int32
	name      string
}

// New makes one; it admits everything until Run or Look has seen otherwise.
func New(c Config) *Pressure {
	if c.Every == 0 {
		c.Every = time.Second
	}
	return &Pressure{config: c, busy: map[int32]*streams.Busy{}, seen: map[follower]int64{}}
}

// Admit answers *streams.Busy where a command must not be sent now.
func (p *Pressure) Admit(_ context.Context, partition int32) error {
	if p.config.Disk != nil {
		if err := p.config.Disk(); err != nil {
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

// Run looks again and again until ctx ends. Where it can't read, what it saw last stands no longer: an unknown
// lag refuses nothing.
func (p *Pressure) Run(ctx context.Context) error {
	tick := time.NewTicker(p.config.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			readings, err := p.config.Read(ctx)
			if err != nil {
				readings = nil
			}
			p.Look(readings)
		}
	}
}

// Look takes readings in.
func (p *Pressure) Look(readings []Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.busy)
	for _, r := range readings {
		who := follower{r.Partition, r.Follower}
		before, known := p.seen[who]
		p.seen[who] = r.Next
		if behind := r.End - r.Next; behind > MaxBehind && !r.Stopped && known && r.Next > before {
			p.busy[r.Partition] = &streams.Busy{
				Reason: fmt.Sprintf("%s is %d commits behind", r.Follower, behind), RetryAfter: 2 * time.Second,
			}
		}
	}
}
