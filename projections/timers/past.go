package timers

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Past are the timers that were set in a past, the next due first.
func Past(p *projections.Past) []Timer {
	var all []Timer
	for _, r := range projections.Kept[key, row](p, Name) {
		scope := domain.Scope(r.scope)
		all = append(all, Timer{
			Scope: scope, Stream: domain.Stream(r.stream), ID: r.id, Group: r.group, Due: r.due,
			Position: streams.Position{Scope: scope, Position: uint64(r.position), Era: int(r.era), Partition: r.partition, Offset: r.offset},
		})
	}
	slices.SortFunc(all, func(a, b Timer) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	return all
}
