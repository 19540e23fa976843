package streams

import "github.com/cairnhq/cairn/domain/safety"

// Sort is the sort of a record on the log.
type Sort string

// The sorts.
const (
	SortCommit Sort = "commit" // a decided command
	SortLead   Sort = "lead"   // a writer claims the partition
	SortClose  Sort = "close"  // nothing counts after it
)

// Mark is what the acceptance rule looks at in a record of the log, and nothing else of it.
type Mark struct {
	Sort   Sort
	Era    int
	Lead   int64
	Writer string
	// CommandOffset and After are a commit's.
	CommandOffset int64
	After         CommandPlace
}

// Mark is the commit's mark.
func (c Commit) Mark() Mark {
	return Mark{
		Sort: SortCommit, Era: c.Era, Lead: c.Lead, Writer: c.Writer,
		CommandOffset: c.CommandOffset, After: c.After,
	}
}

// Accept is the acceptance rule (DESIGN section 3), the same for every reader. It answers what a reader
// remembers after the record, and whether the record counts; one that does not changes nothing.
//
// A lead counts if its number is the next one, so of several writers that claim the same number the
// first in the log wins, and a writer that slept meanwhile can't. A commit counts if it comes from the
// current lead and continues the last counted commit, so a commit lost or late in the middle of several
// takes those behind it with it.
func (a Acceptance) Accept(m Mark) (Acceptance, bool) {
	if a.Closed && !safety.Off(safety.Close) {
		return a, false
	}
	switch m.Sort {
	case SortLead, SortClose:
		again := safety.Off(safety.FirstLead) && m.Lead == a.Lead // the last one wins
		if m.Lead != a.Lead+1 && !again || m.Era < a.Era || m.Writer == "" {
			return a, false
		}
		a.Era, a.Lead, a.Writer, a.Closed = m.Era, m.Lead, m.Writer, m.Sort == SortClose
		return a, true
	case SortCommit:
		leads := a.Lead > 0 && m.Era == a.Era && m.Lead == a.Lead && m.Writer == a.Writer
		continues := m.After == a.After || safety.Off(safety.After)
		if (!leads || !continues) && !safety.Off(safety.Acceptance) {
			return a, false
		}
		a.After = CommandPlace{Era: m.Era, Offset: m.CommandOffset}
		return a, true
	default:
		return a, false
	}
}

// Before reports whether p lies before q: in an older era, or at a lower offset of the same one.
func (p CommandPlace) Before(q CommandPlace) bool {
	return p.Era < q.Era || p.Era == q.Era && p.Offset < q.Offset
}
