package leadmodel_test

import (
	"fmt"
	"sort"
	"strconv"

	"github.com/cairnhq/cairn/streams"
)

// mechanism is what a control takes away.
type mechanism string

const (
	readBack        mechanism = "read back before answering"
	afterChain      mechanism = "after"
	firstLeadWins   mechanism = "the first lead of a number wins"
	freshWriterID   mechanism = "a fresh writer id for each attempt"
	idsInFlight     mechanism = "ids in flight are known"
	repeatWaits     mechanism = "the answer to a repeat waits for the first commit"
	refusedFlush    mechanism = "a refused flush ends the lead"
	loadChecks      mechanism = "a load with another checkpoint ends the lead"
	onlyCounted     mechanism = "only counted commits are stored"
	readsOn         mechanism = "a writer decides only after it met its own lead"
	asksTable       mechanism = "ids that were forgotten are looked up"
	migrateCloses   mechanism = "migrate closes the old partition"
	migrateEndsMark mechanism = "a writer leads only in the era of its topics"
)

// world is what a search explores.
type world struct {
	without    mechanism // the mechanism that is missing, if any
	commands   string    // one letter a command id
	writers    int
	pipeline   int  // commits in flight per writer
	duplicates int  // records that land twice
	flushes    bool // states are stored and forgotten
	restores   int  // times that the store is set back
	migrate    bool // the last writer belongs to the new topics

	broken string // what the step just taken broke
	states int
	ends   int // states in which all ids were answered
}

const (
	ids     = 2
	maxLog  = 14
	maxSent = 8
	none    = 255
)

// record is one on the log, or on its way there.
type record struct {
	log, sort, era, lead, writer uint8
	offset, afterEra, after      uint8 // offsets plus one; 0 is none
	id, before, events, release  uint8
}

// answer is what a commit says: never zero.
func (r record) answer() uint8 { return 1 + r.release + 2*(r.before+r.events) }

func (r record) mark() streams.Mark {
	sorts := [...]streams.Sort{"", streams.SortLead, streams.SortClose, streams.SortCommit}
	m := streams.Mark{Sort: sorts[r.sort], Era: int(r.era), Lead: int64(r.lead), Writer: strconv.Itoa(int(r.writer))}
	if m.Sort == streams.SortCommit {
		m.CommandOffset = int64(r.offset) - 1
		m.After = streams.CommandPlace{Era: int(r.afterEra), Offset: int64(r.after) - 1}
	}
	return m
}

const (
	lead uint8 = iota + 1
	closing
	commit
)

const (
	asleep uint8 = iota
	awaiting
	leading
	stopped
)

// pending is a commit in flight, as its writer knows it.
type pending struct {
	used, offset, id, events, answer, repeats uint8
}

type writer struct {
	phase, read, next uint8
	position          uint8 // after what it read as counted; none: forgotten
	stored            uint8 // the checkpoint it expects in the store
	heldFrom          uint8 // the command offset from which it holds ids, plus one
	held              [ids]uint8
	inFlight          [2]pending
}

type store struct {
	next, position uint8
	answers        [ids]uint8
}

type command struct{ id, known uint8 }

// state is everything; it is comparable, and its in-flight records are sorted.
type state struct {
	log        [2][maxLog]record
	length     [2]uint8
	sent       [maxSent]record
	sentCount  uint8
	duplicates uint8
	restores   uint8
	writers    [3]writer
	stores     [2]store
	old        [2]store // what stores was before its last flush
	commands   [4]command
	arrived    uint8 // commands that were sent
	answered   [ids]uint8
	migrating  uint8 // 0, then 1: closing, 2: copying, 3: ended, none: given up
	snapshot   uint8 // how much of the old log is copied
	copied     uint8 // commits
	base       uint8 // the first command of the new topic
}

// violate notes the first broken promise of a step.
func (w *world) violate(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// accept is the program's acceptance rule, or what a control makes of it.
func (w *world) accept(a streams.Acceptance, m streams.Mark) (streams.Acceptance, bool) {
	switch {
	case w.without == afterChain && m.Sort == streams.SortCommit:
		m.After = a.After
	case w.without == firstLeadWins && m.Sort == streams.SortLead && m.Lead == a.Lead:
		a.Lead--
		next, ok := a.Accept(m)
		if !ok {
			a.Lead++
			return a, false
		}
		return next, true
	}
	return a.Accept(m)
}

// fold reads the first n records of a log.
func (w *world) fold(s *state, log, n uint8, each func(r record, a streams.Acceptance, counted bool)) streams.Acceptance {
	a := streams.NewAcceptance()
	for i := range n {
		r := s.log[log][i]
		var counted bool
		a, counted = w.accept(a, r.mark())
		if each != nil {
			each(r, a, counted)
		}
	}
	return a
}

// check reads a whole log as everyone does in the end.
func (w *world) check(s *state, log uint8) {
	var position uint8
	var seen [ids]bool
	era, next := uint8(0), uint8(0)
	w.fold(s, log, s.length[log], func(r record, _ streams.Acceptance, counted bool) {
		if !counted || r.sort != commit {
			return
		}
		if r.era != era {
			era, next = r.era, 0
		}
		for o := next; o < r.offset-1 && (log == 0 || era == 2); o++ {
			if id := w.commandAt(s, log, r.era, o).id; !seen[id] {
				w.violate("command %d was skipped", o)
			}
		}
		if r.before != position {
			w.violate("a commit begins after position %d, not %d", r.before, position)
		}
		if seen[r.id] {
			w.violate("command %c was decided twice", 'a'+r.id)
		}
		if s.answered[r.id] != 0 && s.answered[r.id] != r.answer() {
			w.violate("command %c was decided differently from its answer", 'a'+r.id)
		}
		seen[r.id], position, next = true, position+r.events, r.offset
	})
}

// commandAt is the command at an offset of the commands topic of that era.
func (w *world) commandAt(s *state, log, era, offset uint8) command {
	if log == 1 && era == 2 {
		return s.commands[s.base+offset]
	}
	return s.commands[offset]
}

// reply gives an answer to a client.
func (w *world) reply(s *state, log, id, answer uint8) {
	var truth uint8
	w.fold(s, log, s.length[log], func(r record, _ streams.Acceptance, counted bool) {
		if counted && r.sort == commit && r.id == id {
			truth = r.answer()
		}
	})
	if truth != answer {
		w.violate("command %c was answered %d, and the log says %d", 'a'+id, answer, truth)
	}
	if s.answered[id] != 0 && s.answered[id] != answer {
		w.violate("command %c was answered twice, and differently", 'a'+id)
	}
	s.answered[id] = answer
	if w.fold(s, 1, s.length[1], nil).Era == 2 {
		w.checkMigrated(s)
	}
}

// checkMigrated says that whatever was answered is in the new log once it has begun.
func (w *world) checkMigrated(s *state) {
	var truth [ids]uint8
	w.fold(s, 1, s.length[1], func(r record, _ streams.Acceptance, counted bool) {
		if counted && r.sort == commit {
			truth[r.id] = r.answer()
		}
	})
	for id, answer := range s.answered {
		if answer != 0 && truth[id] != answer {
			w.violate("command %c was answered, and the new log does not have it", 'a'+id)
		}
	}
}

func (s *state) send(r record) {
	if s.sentCount == maxSent {
		panic("too many records in flight for the model")
	}
	s.sent[s.sentCount] = r
	s.sentCount++
	sort.Slice(s.sent[:s.sentCount], func(i, j int) bool { return less(s.sent[i], s.sent[j]) })
}

func less(a, b record) bool {
	x := [...]uint8{a.log, a.sort, a.era, a.lead, a.writer, a.offset, a.after, a.id, a.before, a.events, a.release}
	y := [...]uint8{b.log, b.sort, b.era, b.lead, b.writer, b.offset, b.after, b.id, b.before, b.events, b.release}
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

// land appends a record that is in flight; twice keeps it there as well.
func (w *world) land(s *state, i int, twice bool) {
	r := s.sent[i]
	if twice {
		s.duplicates++
	} else {
		copy(s.sent[i:], s.sent[i+1:])
		s.sentCount--
		s.sent[s.sentCount] = record{}
	}
	s.put(r)
	if w.without == readBack && r.sort == commit && !twice && s.writers[r.writer-1].phase == leading {
		w.reply(s, r.log, r.id, r.answer())
	}
	w.check(s, r.log)
}

func (s *state) put(r record) {
	if s.length[r.log] == maxLog {
		panic("too long a log for the model")
	}
	s.log[r.log][s.length[r.log]] = r
	s.length[r.log]++
}
