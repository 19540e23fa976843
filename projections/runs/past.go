package runs

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/projections"
)

// Past are the runs that a past has, the newest first.
func Past(p *projections.Past) []Run {
	var all []Run
	for _, r := range projections.Kept[key, row](p, Name) {
		all = append(all, r.Run)
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(b.PostedAt.Compare(a.PostedAt), cmp.Compare(b.ID, a.ID)) })
	return all
}
