package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// around waits until enough is stored to tell: what is published can't be taken back.
func (p *Publisher) around(ctx context.Context, partition int32, since int64, scope domain.Scope, position uint64) (streams.Around, error) {
	for waited := false; ; waited = true {
		a, err := p.config.Around(ctx, partition, since, scope, position)
		if err != nil || a.Next >= since {
			if waited {
				p.waits(partition, "")
			}
			return a, err
		}
		p.waits(partition, fmt.Sprintf("offset %d follows what the read model of events, which has read to %d, does not know yet", since, max(a.Next, 0)))
		if !wait(ctx, 200*time.Millisecond) {
			return a, ctx.Err()
		}
	}
}

// waits says why a partition does.
func (p *Publisher) waits(partition int32, why string) {
	p.mu.Lock()
	one := p.partitions[partition]
	p.mu.Unlock()
	if one != nil {
		one.change(func(s *FeedStats) { s.Waiting = why })
	}
}
