package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Law is the name of something that no history may break.
type Law string

// The laws.
const (
	LogWhole     Law = "log whole"         // the log begins at 0, and nothing of it was dropped
	LogStable    Law = "log stable"        // two readings agree, byte for byte, and the later one holds the earlier
	LogReadable  Law = "log readable"      // what counts can be decoded, and its headers say what its body says
	Rule         Law = "acceptance rule"   // the product counts the same records as the checker
	Placed       Law = "placed"            // a scope lies in its partition
	InOrder      Law = "commands in order" // each is decided, none is passed over
	OneCommit    Law = "one commit a command"
	Versions     Law = "versions contiguous" // of each stream: 1, 2, 3 …
	Positions    Law = "positions contiguous"
	Chain        Law = "hash chain"
	EventIDs     Law = "event ids"  // follow from the command's
	Clock        Law = "decided_at" // never runs backwards in a scope
	Acknowledged Law = "nothing acknowledged is lost"
	Phantom      Law = "no phantom" // what is in the log was asked
	SameAnswer   Law = "same answer to a repeat"
	RealTime     Law = "real-time order"
	Unbroken     Law = "subscribers unbroken"
	Resets       Law = "resets for a reason"
	OneOutcome   Law = "one outcome an effect"
	StatesFold   Law = "writer states == fold"
	ReadModels   Law = "read models == fold"
	Moved        Law = "moved byte for byte"
	FeedsCarry   Law = "feeds == log"
	NothingAside Law = "nothing parked"
)

// Fault is a law that was broken, and where.
type Fault struct {
	Law    Law
	Detail string
}

// String is the fault in one line.
func (f Fault) String() string { return string(f.Law) + ": " + f.Detail }

// Evidence is what there is to judge.
type Evidence struct {
	// History is what clients saw. Nil: only the log is judged.
	History *Recorder
	// Logs are readings of the log in the order in which they began: at least two, the last after everything came to rest.
	Logs []*Log
	// Voids are the offsets in each partition that an operator voided.
	Voids map[int32]map[int64]bool
	// Invoked tells which commits must come from a request in History. Nil: all that name a command.
	Invoked func(*streams.Commit) bool
	// Rest says that everything has come to rest: every effect that can end has ended.
	Rest Resting
	// Effects says what an event asks of the world. Nil: effects are not judged.
	Effects func(streams.Recorded) (Asks, error)
	// Accept is the product's acceptance rule, held against the checker's own. Nil: streams.Acceptance.Accept.
	Accept func(streams.Acceptance, streams.Mark) (streams.Acceptance, bool)
	// Feeds are the public topics, read after the last log. Nil: they are not judged. At rest they must be level with it.
	Feeds *Feeds
	// Parked is what was put aside, and Meant tells which of it is as it should be. Nil: nothing is.
	Parked []Parked
	Meant  func(Parked) bool
	// Faults are what other checks found (read models, writer states); they join the verdict.
	Faults []Fault
}

// Resting says whether the system was at rest when the last log was read.
type Resting int

// The two.
const (
	Running Resting = iota
	AtRest
)

// Verdict is what Check found.
type Verdict struct {
	Faults []Fault
	// What was looked at.
	Ops            Counts
	Commits        int // that count
	Rejections     int // of these
	Events         int
	Leads          int
	Commands       int // held against the log
	Uncounted      int // records that the acceptance rule passes
	Effects        int
	Deliveries     int
	Subscribers    int
	Resets         int // of these: they were told to reload
	Published      int // records of the feeds
	Parked         int
	Voided         int
	Lost, Repeated int // acknowledged and not in the log; decided or delivered or done more than once
}

// Check judges. It never stops at the first fault.
func Check(e Evidence) Verdict {
	c := newCheck(e)
	if len(e.Logs) < 2 {
		c.fault(LogStable, "the log was read %d times, and twice is the least", len(e.Logs))
	}
	if len(e.Logs) == 0 {
		return c.Verdict
	}
	c.log = e.Logs[len(e.Logs)-1]
	c.readings()
	c.records()
	c.commits()
	c.commands()
	if e.Effects != nil {
		c.effects()
	}
	if e.Feeds != nil {
		c.feeds()
	}
	c.parked()
	if e.History != nil {
		c.ops, c.subscribers, c.done = e.History.snapshot()
		c.answers()
		c.phantoms()
		c.order()
		c.deliveries()
	}
	return c.Verdict
}

func newCheck(e Evidence) *check {
	c := &check{
		Evidence: e, by: map[streams.CommandKey]*Entry{}, at: map[spot]*streams.Recorded{},
		heads: map[domain.Scope]uint64{}, last: map[streams.StreamKey]uint64{},
	}
	if c.Accept == nil {
		c.Accept = streams.Acceptance.Accept
	}
	c.Verdict.Faults = slices.Clone(e.Faults)
	return c
}

// check is one judgement under way.
type check struct {
	Evidence
	Verdict     Verdict
	log         *Log
	ops         []Op
	subscribers []Subscriber
	done        []execution

	by    map[streams.CommandKey]*Entry
	at    map[spot]*streams.Recorded // by position and by version
	heads map[domain.Scope]uint64
	last  map[streams.StreamKey]uint64
}

// spot is a place in a scope, or in a stream of it.
type spot struct {
	scope  domain.Scope
	stream domain.Stream
	seq    uint64
}

func (c *check) fault(law Law, format string, args ...any) {
	c.Verdict.Faults = append(c.Verdict.Faults, Fault{law, fmt.Sprintf(format, args...)})
}

func (c *check) voided(e *Entry) bool { return c.Voids[e.Partition][e.Offset] }

// shown is how many faults of one law a report shows.
const shown = 5

// Err is nil for a history without a fault, else it says which laws were broken and where first.
func (v Verdict) Err() error {
	if len(v.Faults) == 0 {
		return nil
	}
	var lines []string
	seen := map[Law]int{}
	for _, f := range v.Faults {
		if seen[f.Law]++; seen[f.Law] <= shown {
			lines = append(lines, f.String())
		}
	}
	for law, n := range seen {
		if n > shown {
			lines = append(lines, fmt.Sprintf("%s: %d more", law, n-shown))
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Broken are the faults of one law.
func (v Verdict) Broken(law Law) []Fault {
	var found []Fault
	for _, f := range v.Faults {
		if f.Law == law {
			found = append(found, f)
		}
	}
	return found
}

// Table is the verdict for people: what was looked at, and each law with the number of its faults.
func (v Verdict) Table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "asked %d: accepted %d, rejected %d, unknown %d, refused %d; lost %d, repeated %d\n",
		v.Ops.Asked, v.Ops.Accepted, v.Ops.Rejected, v.Ops.Unknown, v.Ops.Refused, v.Lost, v.Repeated)
	fmt.Fprintf(&out, "log: %d commits (%d rejections, %d voided) with %d events under %d leads, %d records that do not count\n",
		v.Commits, v.Rejections, v.Voided, v.Events, v.Leads, v.Uncounted)
	fmt.Fprintf(&out, "%d commands, %d effects, %d subscribers with %d deliveries and %d resets; %d records in feeds, %d parked\n",
		v.Commands, v.Effects, v.Subscribers, v.Deliveries, v.Resets, v.Published, v.Parked)
	for _, law := range Laws() {
		fmt.Fprintf(&out, "  %-30s %d\n", law, len(v.Broken(law)))
	}
	return out.String()
}

// Laws are all of them, in the order in which a report names them.
func Laws() []Law {
	return []Law{
		LogWhole, LogStable, LogReadable, Rule, Placed, InOrder, OneCommit, Versions, Positions, Chain, EventIDs, Clock,
		Acknowledged, Phantom, SameAnswer, RealTime, Unbroken, Resets, OneOutcome, StatesFold, ReadModels, Moved,
		FeedsCarry, NothingAside,
	}
}
