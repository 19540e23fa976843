package projections

import (
	"hash/fnv"
	"io"

	"github.com/cairnhq/cairn/domain"
)

// LaneOf is the lane of a partition in which a scope's events are applied, of so many.
func LaneOf(scope domain.Scope, lanes int) int {
	if lanes <= 1 {
		return 0
	}
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, string(scope)) // a hash takes everything
	return int(sum.Sum32() % uint32(lanes))
}
