package projections

import (
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// piece is a run of counted commits of a partition, read and decoded once for all who apply it.
type piece struct {
	partition  int32
	from, next streams.Checkpoint
	commits    []streams.Commit
	values     [][]any // of each commit's events; nil where nobody asked, or where it could not be decoded
}

func (p *piece) events() int {
	n := 0
	for i := range p.commits {
		n += len(p.commits[i].Events)
	}
	return n
}

// lane is one of so many parts of a partition. What was read for different lanes is applied side by side.
type lane struct{ of, number int }

// part is what a lane has of a piece: its commits, and the same place at the end.
func (l lane) part(p *piece) *piece {
	if l.of <= 1 {
		return p
	}
	mine := &piece{from: p.from, next: p.next, partition: p.partition}
	for i := range p.commits {
		if LaneOf(p.commits[i].Scope, l.of) == l.number {
			mine.commits, mine.values = append(mine.commits, p.commits[i]), append(mine.values, p.values[i])
		}
	}
	return mine
}

// Selective is a projector that looks only at events of streams of some kinds, decoded. Of none: it takes events as they
// stand. What nobody looks at is not decoded.
type Selective interface {
	Projector
	Kinds() []string
}

// kinds are kinds of streams; nil: all of them.
type kinds map[string]bool

func (k kinds) has(kind string) bool { return k == nil || k[kind] }

// kindsOf are the kinds of streams that some projectors look at.
func kindsOf(projectors []Projector) kinds {
	found := kinds{}
	for _, p := range projectors {
		s, ok := p.(Selective)
		if !ok {
			return nil
		}
		for _, kind := range s.Kinds() {
			found[kind] = true
		}
	}
	return found
}

// decode makes a piece of what was read, with the values of events of those kinds. One that can't be decoded has none: who
// looks at it finds out why.
func decode(schema *codec.Schema, b streams.Batch, of kinds) *piece {
	p := &piece{partition: b.Partition, from: b.From, next: b.Next, commits: b.Commits, values: make([][]any, len(b.Commits))}
	for i := range b.Commits {
		events := b.Commits[i].Events
		for j := range events {
			if !of.has(events[j].Stream.Kind()) {
				continue
			}
			value, err := schema.Decode(events[j])
			if err != nil {
				continue
			}
			if p.values[i] == nil {
				p.values[i] = make([]any, len(events))
			}
			p.values[i][j] = value
		}
	}
	return p
}
