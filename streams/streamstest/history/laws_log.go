package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// readings: each reading begins at 0, and each later one holds the earlier, byte for byte.
func (c *check) readings() {
	for i, l := range c.Logs {
		for p, start := range l.Starts {
			if start != 0 {
				c.fault(LogWhole, "reading %d: partition %d begins at offset %d", i+1, p, start)
			}
		}
		if i > 0 {
			c.holds(i, c.Logs[i-1], l)
		}
	}
}

func (c *check) holds(i int, earlier, later *Log) {
	if len(earlier.Partitions) != len(later.Partitions) {
		c.fault(LogStable, "reading %d has %d partitions, the one before %d", i+1, len(later.Partitions), len(earlier.Partitions))
		return
	}
	for p := range earlier.Partitions {
		a, b := earlier.Partitions[p], later.Partitions[p]
		if later.Ends[p] < earlier.Ends[p] || len(b) < len(a) {
			c.fault(LogStable, "partition %d ended at %d with %d records, and in reading %d at %d with %d",
				p, earlier.Ends[p], len(a), i+1, later.Ends[p], len(b))
		}
		for n := range min(len(a), len(b)) {
			if a[n].Offset != b[n].Offset || a[n].Digest != b[n].Digest {
				c.fault(LogStable, "partition %d, record %d: offset %d in reading %d, offset %d in the next, or other bytes",
					p, n, a[n].Offset, i, b[n].Offset)
				break // what follows is shifted
			}
		}
	}
}

// records: what counts can be read, and the product's rule counts the same.
func (c *check) records() {
	for p, all := range c.log.Partitions {
		product := streams.NewAcceptance()
		offset := int64(-1)
		for i := range all {
			e := &all[i]
			if e.Offset <= offset {
				c.fault(LogReadable, "partition %d: offset %d after %d", p, e.Offset, offset)
			}
			offset = e.Offset
			counts := false
			if !e.Stray {
				product, counts = c.Accept(product, e.Mark)
			}
			if counts != e.Counts {
				c.fault(Rule, "partition %d, offset %d: the product counts it: %v, the checker: %v", p, e.Offset, counts, e.Counts)
			}
			switch {
			case !e.Counts:
				c.Verdict.Uncounted++
			case e.Broken != "" && !c.voided(e):
				c.fault(LogReadable, "partition %d, offset %d: %s", p, e.Offset, e.Broken)
			case e.Mark.Sort != streams.SortCommit:
				c.Verdict.Leads++
			}
		}
		if product != c.log.Counted[p] {
			c.fault(Rule, "partition %d: the product remembers %+v, the checker %+v", p, product, c.log.Counted[p])
		}
	}
}

// fold is what the events of the commits before say comes next.
type fold struct {
	hashes map[streams.StreamKey][]byte
	times  map[domain.Scope]string
	events map[string]int64
	// A void took events out: the next of the scope, or of the stream, may stand anywhere above.
	scopes  map[domain.Scope]bool
	streams map[streams.StreamKey]bool
}

// commits: ids, versions, positions, hashes and times of everything that counts.
func (c *check) commits() {
	f := &fold{
		hashes: map[streams.StreamKey][]byte{}, times: map[domain.Scope]string{}, events: map[string]int64{},
		scopes: map[domain.Scope]bool{}, streams: map[streams.StreamKey]bool{},
	}
	c.log.each(func(e *Entry) bool {
		c.Verdict.Commits++
		least := int64(0)
		if e.Mark.After.Era == e.Mark.Era {
			least = e.Mark.After.Offset + 1
		}
		if e.Mark.CommandOffset < least { // above it is well where those between are repeats: see commands
			c.fault(InOrder, "partition %d, offset %d decides command %d of era %d, and %d is the least that is left", e.Partition, e.Offset, e.Mark.CommandOffset, e.Mark.Era, least)
		}
		if m := e.Commit; m.CommandID != "" || m.Scope != "" {
			c.commit(e, f)
		} else if len(m.Events) > 0 {
			c.fault(OneCommit, "partition %d, offset %d: %d events of no command", e.Partition, e.Offset, len(m.Events))
		}
		return true
	})
}

func (c *check) commit(e *Entry, f *fold) {
	m := e.Commit
	if p := kafkaPartition(m.Scope, len(c.log.Partitions)); p != e.Partition {
		c.fault(Placed, "partition %d, offset %d: %s belongs to partition %d", e.Partition, e.Offset, m.Scope, p)
	}
	key := streams.CommandKey{Scope: m.Scope, ID: m.CommandID}
	if first, twice := c.by[key]; twice {
		c.Verdict.Repeated++
		c.fault(OneCommit, "command %s of %s was decided at offset %d and at %d", key.ID, key.Scope, first.Offset, e.Offset)
	} else {
		c.by[key] = e
	}
	if m.DecidedAt < f.times[m.Scope] {
		c.fault(Clock, "%s: %s after %s, at offset %d", m.Scope, m.DecidedAt, f.times[m.Scope], e.Offset)
	}
	f.times[m.Scope] = max(f.times[m.Scope], m.DecidedAt)
	if m.Rejected != nil {
		c.Verdict.Rejections++
	}
	if c.voided(e) {
		c.Verdict.Voided++
	}
	if c.voided(e) || e.unread != nil {
		f.scopes[m.Scope] = true
		for _, v := range m.Events {
			f.streams[streams.StreamKey{Scope: m.Scope, Stream: v.Stream}] = true
		}
		for _, s := range e.unread {
			f.streams[streams.StreamKey{Scope: m.Scope, Stream: s}] = true
		}
		return
	}
	for i := range m.Events {
		c.event(e, i, f)
	}
	if e.Broken == "" && e.Position != c.heads[m.Scope] && !f.scopes[m.Scope] {
		c.fault(Positions, "%s: the commit at offset %d answers position %d, and the scope stands at %d", m.Scope, e.Offset, e.Position, c.heads[m.Scope])
	}
}

func (c *check) event(e *Entry, i int, f *fold) {
	c.Verdict.Events++
	v := &e.Commit.Events[i]
	key := streams.StreamKey{Scope: v.Scope, Stream: v.Stream}
	if want := c.heads[v.Scope] + 1; v.Position != want && (!f.scopes[v.Scope] || v.Position < want) {
		c.fault(Positions, "%s: position %d where %d is the next, at offset %d", v.Scope, v.Position, want, e.Offset)
	}
	if want := c.last[key] + 1; v.Version != want && (!f.streams[key] || v.Version < want) {
		c.fault(Versions, "%s of %s: version %d where %d is the next, at offset %d", v.Stream, v.Scope, v.Version, want, e.Offset)
	}
	prev := f.hashes[key]
	if prev == nil {
		first := sha256.Sum256([]byte(v.Stream))
		prev = first[:]
	}
	if !f.streams[key] && !bytes.Equal(chain(prev, v), v.Hash) {
		c.fault(Chain, "%s of %s breaks at version %d, offset %d", v.Stream, v.Scope, v.Version, e.Offset)
	}
	parent, err := uuid.Parse(v.CommandID)
	if err != nil || v.ID != uuid.NewSHA1(parent, []byte(strconv.Itoa(i))).String() {
		c.fault(EventIDs, "event %d of command %s is %s, at offset %d", i, v.CommandID, v.ID, e.Offset)
	}
	if first, twice := f.events[v.ID]; twice {
		c.fault(EventIDs, "event %s stands at offset %d and at %d", v.ID, first, e.Offset)
	}
	f.events[v.ID], f.hashes[key], f.streams[key], f.scopes[v.Scope] = e.Offset, v.Hash, false, false
	c.heads[v.Scope], c.last[key] = v.Position, v.Version
	c.at[spot{v.Scope, "", v.Position}], c.at[spot{v.Scope, v.Stream, v.Version}] = v, v
}

// kafkaPartition is where Kafka's own client puts a scope.
func kafkaPartition(scope domain.Scope, n int) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("log").Partition(&kgo.Record{Key: []byte(scope)}, n))
}

// chain is DESIGN section 3: SHA-256 over the previous hash and what follows, each preceded by its length.
func chain(prev []byte, v *streams.Recorded) []byte {
	h := sha256.New()
	for _, part := range [][]byte{
		prev, []byte(v.Stream), []byte(strconv.FormatUint(v.Version, 10)), []byte(v.ID), []byte(v.Type),
		[]byte(strconv.Itoa(v.Schema)), []byte(v.At), v.Actor, v.Data, v.SealDigest,
	} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return h.Sum(nil)
}
