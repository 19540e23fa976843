package threads

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/projections"
)

// Past are the threads that a past has, the most recently active first.
func Past(p *projections.Past) []Thread {
	var all []Thread
	for _, t := range projections.Kept[key, Thread](p, Name) {
		one := *t
		one.ActiveRun = projections.Text(t.ActiveRun) // as the table has it
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Thread) int { return cmp.Or(b.LastActivity.Compare(a.LastActivity), cmp.Compare(b.ID, a.ID)) })
	return all
}
