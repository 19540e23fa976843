package history_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// A command that was not decided, only later, or as another, is found, and a repeat after its first is no fault.
func TestACommandPassedOverIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*plot)
		laws  []history.Law
	}{
		"every one decided": {func(p *plot) {
			p.both("b")
			p.both("z")
		}, nil},
		"sent, and not decided yet": {func(p *plot) {
			p.both("z")
			p.wish("b")
		}, nil},
		"passed over": {func(p *plot) {
			p.wish("b")
			p.skips(1)
			p.both("z")
		}, []history.Law{history.InOrder}},
		"a repeat": {func(p *plot) {
			p.wish("a")
			p.skips(1)
			p.both("z")
		}, nil},
		"a repeat decided only later": {func(p *plot) {
			p.wish("b")
			p.skips(1)
			p.both("c")
			p.both("b")
		}, []history.Law{history.InOrder}},
		"a repeat decided as another": {func(p *plot) {
			p.wish("b")
			p.wish("a")
			p.skips(1)
			p.commit(ann, "b", "tally-x")
		}, []history.Law{history.InOrder}},
		"of nobody": {func(p *plot) {
			p.wish("b").Headers = nil
			p.nobodys(0)
			p.both("z")
		}, nil},
		"of nobody, passed over": {func(p *plot) {
			p.wish("b").Headers = nil
			p.skips(1)
			p.both("z")
		}, []history.Law{history.InOrder}},
		"of nobody, decided as somebody's": {func(p *plot) {
			p.wish("b").Headers = nil
			p.commit(ann, "b", "tally-x")
		}, []history.Law{history.InOrder}},
		"somebody's, decided as nobody's": {func(p *plot) {
			p.wish("b")
			p.nobodys(0)
		}, []history.Law{history.InOrder}},
		"an id that is none, passed over": {func(p *plot) {
			p.wish("b").Headers = kafka.CommandHeaders(ann, "b")
			p.skips(1)
			p.both("z")
		}, []history.Law{history.InOrder}},
		"an offset that a restore filled": {func(p *plot) {
			r := p.wish("b")
			r.Key, r.Value, r.Headers = nil, nil, nil
			p.skips(1)
			p.both("z")
		}, nil},
		"decided, and not in the topic": {func(p *plot) {
			p.commit(ann, "b", "tally-x")
		}, []history.Law{history.InOrder}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlot(t)
			p.both("a")
			c.plant(p)
			v := judge(history.Evidence{Logs: []*history.Log{p.log()}})
			found(t, v, c.laws...)
			if v.Commands == 0 {
				t.Error("no command was looked at")
			}
		})
	}
}

// What was trimmed before anybody read it is unknown, and what an earlier reading saw is not.
func TestWhatWasTrimmedIsKnownFromAnEarlierReading(t *testing.T) {
	p := newPlot(t)
	for _, name := range []string{"a", "b", "c"} {
		p.wish(name)
	}
	p.commit(ann, "a", "tally-x")
	early := p.log()
	p.skips(1)
	p.commit(ann, "c", "tally-x")
	p.commands = p.commands[2:]
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}}))
	found(t, history.Check(history.Evidence{Logs: []*history.Log{early, p.log()}}), history.InOrder)
	other := *p.commands[0]
	other.Value = []byte("other")
	p.commands = []*kgo.Record{&other}
	found(t, history.Check(history.Evidence{Logs: []*history.Log{early, p.log()}}), history.InOrder, history.LogStable)
}

// Command offsets of an older era are those of another topic; what was decided then needs no decision in the new one.
func TestCommandsOfAnOlderEraAreElsewhere(t *testing.T) {
	moved := func() *plot {
		p := newPlot(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			p.commit(ann, name, "tally-x")
		}
		p.era = 2
		p.leads("w2")
		p.commands = []*kgo.Record{}
		return p
	}
	p := moved()
	p.wish("e")
	p.wish("f")
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}})) // nothing is decided in this era yet
	p.commit(ann, "e", "tally-x")
	p.commit(ann, "f", "tally-x")
	p.wish("c") // a repeat
	p.wish("g")
	p.skips(1)
	p.commit(ann, "g", "tally-x")
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}}))
	p = moved()
	p.wish("e")
	p.wish("f")
	p.skips(1)
	p.commit(ann, "f", "tally-x")
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}}), history.InOrder)
}

// A command in a partition that is not its scope's is nobody's: it is rejected there, however often it comes.
func TestACommandElsewhereIsNobodys(t *testing.T) {
	p := newPlot(t)
	read := func() []*history.Log {
		for _, r := range slices.Concat(p.records, p.commands) {
			r.Partition = 1 - kafka.PartitionOf(ann, 2)
		}
		l := history.NewLog(2, p.records...)
		l.Commands = history.NewCommands(1, 2, p.commands...)
		return []*history.Log{l}
	}
	for range 2 {
		p.wish("a")
		p.nobodys(0)
	}
	found(t, judge(history.Evidence{Logs: read()}))
	p.wish("a")
	p.wish("a")
	p.nobodys(1)
	found(t, judge(history.Evidence{Logs: read()}), history.InOrder)
}

// A commit of which only the mark can be read decides its command, so that a void leaves no gap.
func TestAVoidedCommitDecidesItsCommand(t *testing.T) {
	p := newPlot(t)
	p.wish("a")
	p.wish("b")
	p.wish("b")
	p.wish("c")
	p.commit(ann, "a", "tally-x")
	bad := p.commit(ann, "b", "tally-y")
	p.records[2].Value, p.records[2].Headers = []byte("poison"), p.records[2].Headers[:1]
	p.positions[ann]--
	p.skips(1)
	p.commit(ann, "c", "tally-x")
	found(t, judge(history.Evidence{
		Logs: []*history.Log{p.log()}, Voids: map[int32]map[int64]bool{0: {bad.Place.Offset: true}},
	}))
}
