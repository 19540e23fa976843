package history

import (
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

func position(p streams.Position) string {
	return fmt.Sprintf("%d of %s (era %d, %d/%d)", p.Position, p.Scope, p.Era, p.Partition, p.Offset)
}

// deliveries: each subscriber was given an unbroken piece of the log, each event once and in order.
func (c *check) deliveries() {
	for i := range c.subscribers {
		s := &c.subscribers[i]
		c.Verdict.Subscribers++
		last, hash := s.after, ""
		for _, d := range s.steps {
			switch d.kind {
			case held:
				hash = d.hash
				continue
			case reset:
				c.reset(s, d, last, hash)
				last, hash = d.seq, ""
				continue
			case delivered:
			}
			c.Verdict.Deliveries++
			switch {
			case d.seq <= last:
				c.Verdict.Repeated++
				c.fault(Unbroken, "%s was given %d of %s again after %d", s.name, d.seq, s.what(), last)
			case d.seq != c.next(s, last):
				c.fault(Unbroken, "%s was given %d of %s after %d", s.name, d.seq, s.what(), last)
			}
			v := c.at[spot{s.scope, s.stream, d.seq}]
			switch {
			case v == nil:
				c.fault(Unbroken, "%s was given %d of %s, which the log does not have", s.name, d.seq, s.what())
			case d.id != "" && d.id != v.ID:
				c.fault(Unbroken, "%s was given event %s as %d of %s, the log has %s", s.name, d.id, d.seq, s.what(), v.ID)
			case d.hash != "" && d.hash != string(v.Hash):
				c.fault(Unbroken, "%s was given another hash with %d of %s than the log's", s.name, d.seq, s.what())
			}
			last, hash = max(last, d.seq), d.hash
		}
		if head := c.head(s); s.level && last < head {
			c.fault(Unbroken, "%s ended at %d of %s, the log at %d", s.name, last, s.what(), head)
		}
	}
}

func (s *Subscriber) what() string {
	if s.stream != "" {
		return string(s.stream) + " of " + string(s.scope)
	}
	return string(s.scope)
}

func (c *check) head(s *Subscriber) uint64 {
	if s.stream != "" {
		return c.last[streams.StreamKey{Scope: s.scope, Stream: s.stream}]
	}
	return c.heads[s.scope]
}

// next is the number after last that the log has: one more, but behind a void.
func (c *check) next(s *Subscriber, last uint64) uint64 {
	for seq := last + 1; len(c.Voids) > 0 && seq <= c.head(s); seq++ {
		if c.at[spot{s.scope, s.stream, seq}] != nil {
			return seq
		}
	}
	return last + 1
}
