package openeffects

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Past are the effects that were open in a past, the oldest first.
func Past(p *projections.Past) []Effect {
	var all []Effect
	for _, r := range projections.Kept[key, row](p, Name) {
		scope := domain.Scope(r.scope)
		all = append(all, Effect{
			Scope: scope, Stream: domain.Stream(r.stream), ID: r.id, Kind: r.kind, Group: r.group, Device: r.device,
			Repeatable: r.repeatable, Started: r.started, Version: uint64(r.version), EventID: r.event, Trace: r.trace,
			Position: streams.Position{Scope: scope, Position: uint64(r.position), Era: int(r.era), Partition: r.partition, Offset: r.offset},
		})
	}
	slices.SortFunc(all, func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.Position.Position, b.Position.Position), cmp.Compare(a.ID, b.ID))
	})
	return all
}
