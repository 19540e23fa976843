package projections

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Verdict is what a comparison of two generations in one snapshot found.
type Verdict struct {
	Projection  string         `json:"projection"`
	Live        int            `json:"live"`       // the generation that was read
	Generation  int            `json:"generation"` // the one beside it
	At          time.Time      `json:"at"`
	Took        time.Duration  `json:"took_ns"`
	Places      []Place        `json:"places"` // where both stood
	Tables      []TableVerdict `json:"tables"`
	OnlyIn      []string       `json:"only_in_one,omitempty"` // tables that one of them has not, compared with nothing
	Differences int64          `json:"differences"`
}

// Place is where a generation stands in a lane of a partition.
type Place struct {
	Partition int32 `json:"partition"`
	Lane      int   `json:"lane"`
	Next      int64 `json:"next"`
	Era       int   `json:"era"`
}

// TableVerdict is what was found of one table.
type TableVerdict struct {
	Table       string       `json:"table"` // without the number
	Rows        int64        `json:"rows"`  // of the live generation
	OtherRows   int64        `json:"other_rows"`
	LeftOut     []string     `json:"left_out,omitempty"` // columns that only one has, or that mean something else in it
	Differences int64        `json:"differences"`        // keys
	Shown       []Difference `json:"shown,omitempty"`
}

// Difference is a key at which two generations differ.
type Difference struct {
	Key     map[string]string `json:"key"`
	Columns []string          `json:"columns,omitempty"` // that differ
	Only    string            `json:"only,omitempty"`    // "live" or "other": the row is in that one only
}

// Clean reports whether nothing differs.
func (v Verdict) Clean() bool { return v.Differences == 0 }

// ErrDiffers is what an unclean Verdict is as an error.
var ErrDiffers = errors.New("the generations differ")

// Err is nil for a clean verdict; else it names the first keys.
func (v Verdict) Err() error {
	if v.Clean() {
		return nil
	}
	var words []string
	for _, t := range v.Tables {
		for _, d := range t.Shown {
			words = append(words, t.Table+" "+d.String())
		}
	}
	return fmt.Errorf("%s: generations %d and %d: %w at %d keys: %s", v.Projection, v.Live, v.Generation, ErrDiffers, v.Differences,
		strings.Join(words[:min(len(words), 5)], "; "))
}

// String says what differs.
func (d Difference) String() string {
	key, err := json.Marshal(d.Key) // its names in order
	switch {
	case err != nil:
		return err.Error()
	case d.Only != "":
		return fmt.Sprintf("%s is only in the %s one", key, d.Only)
	}
	return fmt.Sprintf("%s: %s", key, strings.Join(d.Columns, ", "))
}
