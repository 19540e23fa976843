package history

// reset: nobody is told to reload who could have gone on, and nobody is told to go on behind the end.
func (c *check) reset(s *Subscriber, d step, cursor uint64, hash string) {
	c.Verdict.Resets++
	if head := c.head(s); d.seq > head {
		c.fault(Resets, "%s was told to go on after %d of %s, and the log ends at %d", s.name, d.seq, s.what(), head)
	}
	switch d.why {
	case Beyond: // the head only grows, so it was beyond then if it is beyond now
		if head := c.head(s); cursor <= head {
			c.fault(Resets, "%s was told that %d of %s is beyond the head, which is %d", s.name, cursor, s.what(), head)
		}
	case OtherHash:
		v := c.at[spot{s.scope, s.stream, cursor}]
		if hash == "" || v != nil && hash == string(v.Hash) {
			c.fault(Resets, "%s was told that %d of %s has another hash, and it is the log's", s.name, cursor, s.what())
		}
	case Cut:
		if !c.cut(s, cursor) {
			c.fault(Resets, "%s was told that what follows %d of %s is not kept, and nothing was cut", s.name, cursor, s.what())
		}
	default:
		c.fault(Resets, "%s was told to reload at %d of %s for no reason that there is: %q", s.name, cursor, s.what(), d.why)
	}
}

// cut reports whether the log begins later than with what follows a cursor.
func (c *check) cut(s *Subscriber, cursor uint64) bool {
	p := kafkaPartition(s.scope, len(c.log.Partitions))
	return c.log.Starts[p] > 0 && cursor < c.head(s) && c.at[spot{s.scope, s.stream, cursor + 1}] == nil
}
