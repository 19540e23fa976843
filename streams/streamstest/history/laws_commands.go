package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cairnhq/cairn/streams"
)

// commands: every command up to the last one that was decided in the topic's era has a commit, and not one of a later
// command: a repeat appends nothing, but it comes after its first. A commit that names a command decides that one.
func (c *check) commands() {
	now := c.log.Commands
	if now == nil {
		return
	}
	for p := range c.log.Partitions {
		decided, last := map[int64]*Entry{}, int64(-1)
		for i := range c.log.Partitions[p] {
			e := &c.log.Partitions[p][i]
			if e.Counts && e.Mark.Sort == streams.SortCommit && e.Mark.Era == now.Era { // others name offsets of another topic
				decided[e.Mark.CommandOffset], last = e, max(last, e.Mark.CommandOffset)
			}
		}
		if last >= now.Ends[p] {
			c.fault(InOrder, "partition %d: command %d of era %d was decided, and the topic of commands ends at %d", p, last, now.Era, now.Ends[p])
		}
		blind := map[streams.CommandKey]bool{} // decided by a commit of which only the mark can be read
		for _, w := range c.wishes(p) {
			if w.Offset > last {
				break
			}
			e, key := decided[w.Offset], streams.CommandKey{Scope: w.Scope, ID: w.CommandID}
			switch {
			case w.Filler: // nobody knows what was there
				continue
			case e != nil && e.Commit == nil:
				blind[key] = true
			case w.Nobodys != "":
				c.nobodys(p, w, e)
			case e != nil && (e.Commit.Scope != w.Scope || e.Commit.CommandID != w.CommandID):
				c.fault(InOrder, "partition %d, offset %d decides command %d as %s of %s, which is %s of %s",
					p, e.Offset, w.Offset, cmp.Or(e.Commit.CommandID, "none"), cmp.Or(e.Commit.Scope, "nobody"), w.CommandID, w.Scope)
			case !blind[key]:
				c.decided(p, w, c.by[key])
			}
			c.Verdict.Commands++
		}
	}
}

// nobodys: what nobody can be answered is rejected all the same, each for itself.
func (c *check) nobodys(p int, w Wish, e *Entry) {
	switch {
	case e == nil:
		c.fault(InOrder, "partition %d: command %d was passed over (%s)", p, w.Offset, w.Nobodys)
	case e.Commit.Scope != "" || e.Commit.CommandID != "":
		c.fault(InOrder, "partition %d, offset %d decides command %d as %s of %s, and %s",
			p, e.Offset, w.Offset, e.Commit.CommandID, e.Commit.Scope, w.Nobodys)
	}
}

// decided: first is the commit under the command's id, if there is one. Those of older eras come before everything.
func (c *check) decided(p int, w Wish, first *Entry) {
	switch {
	case first == nil:
		c.fault(InOrder, "partition %d: command %d, %s of %s, was passed over", p, w.Offset, w.CommandID, w.Scope)
	case first.Mark.Era > c.log.Commands.Era, first.Mark.Era == c.log.Commands.Era && first.Mark.CommandOffset > w.Offset:
		c.fault(InOrder, "partition %d: command %d, %s of %s, was passed over until it was sent again: it is decided as command %d, at offset %d",
			p, w.Offset, w.CommandID, w.Scope, first.Mark.CommandOffset, first.Offset)
	}
}

// wishes are a partition's commands in all readings, in order: an earlier reading may know what was trimmed later.
func (c *check) wishes(p int) []Wish {
	all := map[int64]Wish{}
	for i, l := range c.Logs {
		if l.Commands == nil || l.Commands.Era != c.log.Commands.Era || len(l.Commands.Partitions) != len(c.log.Partitions) {
			continue
		}
		for _, w := range l.Commands.Partitions[p] {
			if before, ok := all[w.Offset]; ok && before.Digest != w.Digest {
				c.fault(LogStable, "partition %d of the commands, offset %d: other bytes in reading %d than before", p, w.Offset, i+1)
			}
			all[w.Offset] = w
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Wish) int { return cmp.Compare(a.Offset, b.Offset) })
}
