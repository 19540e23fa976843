package controls_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// pen writes on the log what writers wrote of which some are dead, overtaken or late.
type pen struct {
	*stage
	// heads are the last hashes of the stream, by version.
	heads map[uint64][]byte
}

func newPen(s *stage) *pen { return &pen{stage: s, heads: map[uint64][]byte{}} }

// lead claims the partition, or closes it.
func (p *pen) lead(sort streams.Sort, n int64, writer string) {
	p.Helper()
	kind := codec.KindLead
	if sort == streams.SortClose {
		kind = codec.KindClose
	}
	value, err := codec.EncodeLead(codec.Lead{Kind: kind, Era: 1, Lead: n, Writer: writer, At: at})
	if err != nil {
		p.Fatal(err)
	}
	p.produce(p.config.Topics.Log(), "", kafka.LeadHeaders(streams.Mark{Sort: sort, Era: 1, Lead: n, Writer: writer}), value)
}

const at = "2026-11-30T00:00:00.000000Z"

// commit is what a writer made of the command at an offset, after another: events with these positions.
func (p *pen) commit(n int64, writer string, offset, after int64, positions ...uint64) {
	p.Helper()
	id := streams.CommandID(scope, fmt.Sprint("command ", offset))
	c := streams.Commit{
		Era: 1, Lead: n, Writer: writer, CommandOffset: offset, After: streams.CommandPlace{Era: 1, Offset: after},
		Scope: scope, CommandID: id, CorrelationID: id, DecidedAt: at, Actor: []byte(`{"kind":"user","id":"a"}`),
	}
	if after < 0 {
		c.After.Era = 0
	}
	for i, position := range positions {
		r, err := release(p, 1).Record(streams.Key{}, scope, id, i, "tally-x", position, position, at, c.Actor, p.heads[position-1], added{N: int(position)})
		if err != nil {
			p.Fatal(err)
		}
		p.heads[position] = r.Hash
		c.Events = append(c.Events, r)
	}
	value, err := codec.EncodeCommit(c)
	if err != nil {
		p.Fatal(err)
	}
	p.produce(p.config.Topics.Log(), scope, kafka.CommitHeaders(c, positions[len(positions)-1]), value)
}

// told is what a reader of the log is given: of each commit the command's offset, who decided it, and its positions. It
// ends with "stops" if the reader does.
func (p *pen) told() string {
	p.Helper()
	tailer, err := kafka.NewTailer(p.config)
	if err != nil {
		p.Fatal(err)
	}
	defer tailer.Close()
	end, err := tailer.End(p.Context(), 0)
	if err != nil {
		p.Fatal(err)
	}
	var told []string
	enough := errors.New("enough")
	err = tailer.Tail(p.Context(), 0, streams.Start(), func(_ context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			text := fmt.Sprint(c.CommandOffset, c.Writer)
			for _, e := range c.Events {
				text += fmt.Sprint(" ", e.Position)
			}
			told = append(told, text)
		}
		if b.Next.Next >= end {
			return enough
		}
		return nil
	})
	var defect *kafka.Defect
	switch {
	case errors.As(err, &defect):
		told = append(told, "stops")
	case !errors.Is(err, enough):
		p.Fatal(err)
	}
	return strings.Join(told, ", ")
}

// judge lets the checker look at the log alone: what a pen decides was never sent.
func (p *pen) judge() {
	p.Helper()
	first, second := p.read(), p.read()
	first.Commands, second.Commands = nil, nil
	p.verdict(first, second)
}

// A schedule of records, and what every reader must be told.
func schedule(t *testing.T, want string, write func(p *pen)) {
	t.Helper()
	on(t, func(s *stage) {
		p := newPen(s)
		write(p)
		if got := p.told(); got != want {
			p.Errorf("readers are told %q, want %q", got, want)
		}
		if !strings.HasSuffix(want, "stops") {
			p.judge()
		}
	})
}

// The schedule that the search of package leadmodel finds where the last lead of a number wins, and writers believe it: B's claim
// of number 1 comes second, and A's lands again after B has decided, with what A decided on its own.
func TestTheFirstLeadOfANumberWins(t *testing.T) {
	schedule(t, "0A 1, 1A 2", func(p *pen) {
		p.lead(streams.SortLead, 1, "A")
		p.lead(streams.SortLead, 1, "B")
		p.commit(1, "B", 0, -1, 1, 2) // B's release makes two events of it
		p.lead(streams.SortLead, 1, "A")
		p.commit(1, "A", 0, -1, 1)
		p.commit(1, "A", 1, 0, 2)
	})
}

// What an overtaken writer appends counts for nobody, also where it continues what counted.
func TestOnlyTheLeadersCommitsCount(t *testing.T) {
	schedule(t, "0A 1, 1B 2, 2B 3", func(p *pen) {
		p.lead(streams.SortLead, 1, "A")
		p.commit(1, "A", 0, -1, 1)
		p.lead(streams.SortLead, 2, "B")
		p.commit(1, "A", 1, 0, 2)
		p.commit(2, "B", 1, 0, 2)
		p.commit(1, "A", 2, 1, 3)
		p.commit(2, "B", 2, 1, 3)
	})
}

// A commit that was lost takes those behind it with it: no command is skipped.
func TestACommitBehindALostOneDoesNotCount(t *testing.T) {
	schedule(t, "0A 1, 1A 2, 2A 3", func(p *pen) {
		p.lead(streams.SortLead, 1, "A")
		p.commit(1, "A", 0, -1, 1)
		p.commit(1, "A", 2, 1, 3) // the one before it is late
		p.commit(1, "A", 1, 0, 2)
		p.commit(1, "A", 2, 1, 3)
	})
}

// What comes after a close was written by who does not know that the log has moved.
func TestNothingCountsAfterAClose(t *testing.T) {
	schedule(t, "0A 1", func(p *pen) {
		p.lead(streams.SortLead, 1, "A")
		p.commit(1, "A", 0, -1, 1)
		p.lead(streams.SortClose, 2, "migration")
		p.lead(streams.SortLead, 3, "B")
		p.commit(3, "B", 1, 0, 2)
		p.send(wish("late", "x"))
		_, stop := p.writer(asItIs) // of a process that was started with the old topics
		defer stop()
		elapse(10 * time.Second)
	})
}

// A counted commit that leaves out a position, or takes one again, was written by no correct writer: readers are
// handed what lies before it, and stop there.
func TestAReaderStopsAtAGap(t *testing.T) {
	schedule(t, "0A 1, stops", func(p *pen) {
		p.lead(streams.SortLead, 1, "A")
		p.commit(1, "A", 0, -1, 1)
		p.commit(1, "A", 1, 0, 3)
	})
}
