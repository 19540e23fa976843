package kafka

import (
	"context"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// watchedScopes bounds the positions that a tail remembers.
const watchedScopes = 1 << 16

// positions watches that each scope's positions are the next ones.
type positions struct {
	config *Config
	last   *simplelru.LRU[domain.Scope, seen]
	// since: a scope that is not in last has no event from this offset of the log on that the tail has read.
	since  int64
	voided map[int64]bool
	// unsure are scopes of which a record was voided since their last event.
	unsure map[domain.Scope]bool
}

// seen is a scope's last position, and where it lies.
type seen struct {
	position uint64
	offset   int64
}

func newPositions(config *Config, from streams.Checkpoint, voided map[int64]bool) *positions {
	p := &positions{config: config, since: from.Next, voided: voided, unsure: map[domain.Scope]bool{}}
	p.last, _ = simplelru.NewLRU[domain.Scope, seen](watchedScopes, func(_ domain.Scope, s seen) { p.since = max(p.since, s.offset+1) })
	return p
}

func (p *positions) forget(scope domain.Scope) { p.unsure[scope] = true }

// check answers what is wrong with a commit's positions, or "".
func (p *positions) check(ctx context.Context, c *streams.Commit) (string, error) {
	if len(c.Events) == 0 {
		return "", nil
	}
	last := seen{}
	was, known := p.last.Get(c.Scope)
	switch {
	case p.unsure[c.Scope]:
		delete(p.unsure, c.Scope)
		last.position = c.Events[0].Position - 1
	case known:
		last = was
	case p.since > 0:
		if reason, err := p.stored(ctx, c); reason != "" || err != nil {
			return reason, err
		}
		last.position = c.Events[0].Position - 1
	}
	for _, e := range c.Events {
		if e.Position != last.position+1 {
			return fmt.Sprintf("an event of %s has position %d after %d", c.Scope, e.Position, last.position), nil
		}
		last.position++
	}
	last.offset = c.Place.Offset
	p.last.Add(c.Scope, last)
	return "", nil
}

// stored holds a commit whose scope the tail has not met against what is stored: all that the scope has lies before since.
// Where less than that is stored nothing can be said.
func (p *positions) stored(ctx context.Context, c *streams.Commit) (string, error) {
	if p.config.Around == nil {
		return "", nil
	}
	first := c.Events[0].Position
	a, err := p.config.Around(ctx, c.Place.Partition, p.since, c.Scope, first)
	switch {
	case err != nil:
		return "", fmt.Errorf("what is stored of %s: %w", c.Scope, err)
	case a.Next < p.since, a.Before != nil && p.voided[*a.Before], a.At != nil && p.voided[*a.At]:
		return "", nil
	case a.At != nil && *a.At < c.Place.Offset:
		return fmt.Sprintf("an event of %s has position %d, which is at offset %d already", c.Scope, first, *a.At), nil
	case first > 1 && (a.Before == nil || *a.Before >= c.Place.Offset):
		return fmt.Sprintf("an event of %s has position %d, and none before it has %d", c.Scope, first, first-1), nil
	}
	return "", nil
}
