package devices

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/projections"
)

// Past are the devices that a past has, by id.
func Past(p *projections.Past) []Device {
	var all []Device
	for _, d := range projections.Kept[key, Device](p, Name) {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
