package projections

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/migrations"
)

// Shaper is a projector that brings the shape of its tables with it, written like a file of migrations/models, where those
// of all others stand.
type Shaper interface{ Shape() string }

// shape is what a revision's tables look like, the names of tables in braces.
type shape struct {
	tables, key, indexes string
	names                []string // of the tables
	changed              []string // columns that mean something else than in the revision before
}

var created = regexp.MustCompile(`CREATE (?:UNLOGGED )?TABLE \{([a-z][a-z0-9_]*)\}`)

// shapeText is what a projector's tables look like. One that has no tables has none.
func shapeText(p Projector) (string, error) {
	if own, ok := p.(Shaper); ok {
		return own.Shape(), nil
	}
	text, _, err := migrations.Model(p.Name(), p.Revision())
	return text, err
}

func parseShape(projection, text string) (shape, error) {
	s := shape{names: []string{}}
	var section *string
	for line := range strings.Lines(text) {
		switch mark := strings.TrimSpace(line); {
		case mark == "-- tables":
			section = &s.tables
		case mark == "-- key":
			section = &s.key
		case mark == "-- indexes":
			section = &s.indexes
		case strings.HasPrefix(mark, "-- changed:"):
			for column := range strings.SplitSeq(strings.TrimPrefix(mark, "-- changed:"), ",") {
				s.changed = append(s.changed, strings.TrimSpace(column))
			}
		case section != nil:
			*section += line
		case mark != "" && !strings.HasPrefix(mark, "--"):
			return s, fmt.Errorf("projections: tables of %s: %q stands in no section", projection, mark)
		}
	}
	for _, found := range created.FindAllStringSubmatch(s.tables, -1) {
		s.names = append(s.names, found[1])
	}
	slices.Sort(s.names)
	return s, nil
}
