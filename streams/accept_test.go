package streams_test

import (
	"testing"

	"github.com/cairnhq/cairn/streams"
)

// The acceptance rule, record by record. Each line follows those above it; the exhaustive search is in leadmodel.
func TestTheAcceptanceRule(t *testing.T) {
	lead := func(era int, n int64, writer string) streams.Mark {
		return streams.Mark{Sort: streams.SortLead, Era: era, Lead: n, Writer: writer}
	}
	commit := func(n int64, writer string, offset, afterEra, after int64) streams.Mark {
		return streams.Mark{
			Sort: streams.SortCommit, Era: 1, Lead: n, Writer: writer, CommandOffset: offset,
			After: streams.CommandPlace{Era: int(afterEra), Offset: after},
		}
	}
	closing := streams.Mark{Sort: streams.SortClose, Era: 1, Lead: 3, Writer: "m"}
	a := streams.NewAcceptance()
	for _, step := range []struct {
		name   string
		mark   streams.Mark
		counts bool
	}{
		{"a commit before any lead", commit(0, "", 0, 0, -1), false},
		{"a lead that skips a number", lead(1, 2, "a"), false},
		{"a lead without a writer", lead(1, 1, ""), false},
		{"the first lead", lead(1, 1, "a"), true},
		{"another lead of the same number", lead(1, 1, "b"), false},
		{"the same lead again", lead(1, 1, "a"), false},
		{"a commit of a writer that does not lead", commit(1, "b", 0, 0, -1), false},
		{"a commit that continues nothing", commit(1, "a", 1, 1, 0), false},
		{"the first commit", commit(1, "a", 0, 0, -1), true},
		{"the same commit again", commit(1, "a", 0, 0, -1), false},
		{"a commit behind a lost one", commit(1, "a", 2, 1, 1), false},
		{"the commit that continues, over a repeat", commit(1, "a", 2, 1, 0), true},
		{"a lead of an older era", lead(0, 2, "b"), false},
		{"the next lead", lead(1, 2, "b"), true},
		{"a late commit of the old lead", commit(1, "a", 3, 1, 2), false},
		{"a commit of the new lead under the old number", commit(1, "b", 3, 1, 2), false},
		{"a commit of the new lead", commit(2, "b", 3, 1, 2), true},
		{"a record of an unknown sort", streams.Mark{Sort: "x", Era: 1, Lead: 3, Writer: "c"}, false},
		{"a close", closing, true},
		{"a commit after the close", commit(3, "m", 4, 1, 3), false},
		{"a lead after the close", lead(2, 4, "c"), false},
	} {
		next, counts := a.Accept(step.mark)
		if counts != step.counts {
			t.Fatalf("%s counts: %v", step.name, counts)
		}
		if !counts && next != a {
			t.Fatalf("%s does not count, and changes %+v to %+v", step.name, a, next)
		}
		a = next
	}
}
