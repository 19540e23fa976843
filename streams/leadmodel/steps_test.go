package leadmodel_test

import (
	"github.com/cairnhq/cairn/streams"
)

const migrator = 9 // its writer id

func (w *world) logOf(i int) uint8 {
	if w.migrate && i == w.writers-1 {
		return 1
	}
	return 0
}

// id is the writer id of an incarnation: one more than its number.
func (w *world) id(i int) uint8 {
	if w.without == freshWriterID {
		return 1
	}
	return uint8(i) + 1
}

// start replays from the store's checkpoint to the end and sends a lead.
func (w *world) start(s *state, i int) {
	g := w.logOf(i)
	st, me := s.stores[g], &s.writers[i]
	*me = writer{phase: awaiting, read: st.next, position: st.position, stored: st.next}
	me.heldFrom = w.place(s, g, st.next)
	a := w.replay(s, g, me, s.length[g])
	ready := a.Era == 2 || w.without == migrateEndsMark && a.Lead > 0
	if a.Closed || g == 1 && !ready {
		*me = writer{phase: stopped}
		return
	}
	s.send(record{log: g, sort: lead, era: 1 + g, lead: uint8(a.Lead) + 1, writer: w.id(i)})
	if w.without == readsOn {
		me.phase = leading
		me.next = w.nextCommand(a, g)
	}
}

// replay folds counted commits into a writer's memory.
func (w *world) replay(s *state, g uint8, me *writer, end uint8) streams.Acceptance {
	n := uint8(0)
	a := w.fold(s, g, end, func(r record, _ streams.Acceptance, counted bool) {
		if n++; n > me.read && counted && r.sort == commit {
			me.position += r.events
			me.held[r.id] = r.answer()
		}
	})
	me.read = end
	return a
}

// place is the command offset, plus one, of the last commit counted before a log offset; 0 if it is of an older era.
func (w *world) place(s *state, g, offset uint8) uint8 {
	a := w.fold(s, g, offset, nil)
	if a.After.Era < int(1+g) {
		return 0
	}
	return uint8(a.After.Offset + 1)
}

func (w *world) nextCommand(a streams.Acceptance, g uint8) uint8 {
	if a.After.Era < int(1+g) {
		return 0
	}
	return uint8(a.After.Offset + 1)
}

// read reads on to the end of the log.
func (w *world) read(s *state, i int) {
	me, g := &s.writers[i], w.logOf(i)
	from := me.read
	n, own := uint8(0), w.id(i)
	w.fold(s, g, s.length[g], func(r record, a streams.Acceptance, counted bool) {
		if n++; n <= from || me.phase == stopped {
			return
		}
		me.read = n
		switch {
		case r.sort != commit && me.phase == awaiting:
			switch {
			case counted && r.writer == own:
				me.phase, me.next = leading, w.nextCommand(a, g)
			case r.writer == own, counted && w.without != firstLeadWins:
				me.phase = stopped
			}
		case r.sort != commit && counted && (w.without != readsOn || r.writer != own):
			me.phase = stopped
		case r.sort == commit && r.writer == own && me.phase == leading:
			w.readOwn(s, g, me, r, counted)
		case r.sort == commit && counted:
			if me.position == none {
				if !w.load(s, g, me) {
					return
				}
				me.position = s.stores[g].position
			}
			me.position += r.events
			me.held[r.id] = r.answer()
		}
	})
	if me.phase == stopped {
		*me = writer{phase: stopped}
	}
}

// readOwn reads a commit of its own back; any doubt ends the lead.
func (w *world) readOwn(s *state, g uint8, me *writer, r record, counted bool) {
	first := me.inFlight[0]
	if !counted || first.used == 0 || first.offset != r.offset-1 || first.answer != r.answer() {
		me.phase = stopped
		return
	}
	me.position += r.events
	me.held[r.id] = r.answer()
	me.inFlight = [2]pending{me.inFlight[1]}
	if w.without != readBack {
		w.reply(s, g, r.id, r.answer())
	}
	if first.repeats > 0 {
		w.reply(s, g, r.id, r.answer())
	}
}

// decide takes the next command.
func (w *world) decide(s *state, i int) {
	me, g := &s.writers[i], w.logOf(i)
	c := w.commandAt(s, g, 1+g, me.next)
	if answer := me.held[c.id]; answer != 0 {
		w.reply(s, g, c.id, answer)
		me.next++
		return
	}
	n, position := 0, me.position
	for k := range me.inFlight {
		p := &me.inFlight[k]
		if p.used == 0 {
			continue
		}
		n++
		position += p.events
		if p.id != c.id || w.without == idsInFlight {
			continue
		}
		if w.without == repeatWaits {
			w.reply(s, g, c.id, p.answer)
		} else {
			p.repeats++
		}
		me.next++
		return
	}
	if c.known < me.heldFrom && w.without != asksTable {
		if !w.load(s, g, me) {
			return
		}
		if answer := s.stores[g].answers[c.id]; answer != 0 {
			w.reply(s, g, c.id, answer)
			me.next++
			return
		}
	}
	if me.position == none {
		if !w.load(s, g, me) {
			return
		}
		me.position = s.stores[g].position
		position = me.position
	}
	release := uint8(i % 2)
	a := w.fold(s, g, me.read, nil)
	r := record{
		log: g, sort: commit, era: uint8(a.Era), lead: uint8(a.Lead), writer: w.id(i), offset: me.next + 1,
		afterEra: uint8(a.After.Era), after: uint8(a.After.Offset + 1),
		id: c.id, before: position, events: 1 + release, release: release,
	}
	if w.without == readsOn && a.Writer != streams.Mark(r.mark()).Writer {
		r.era, r.lead = 1+g, uint8(a.Lead)+1
	}
	if n > 0 {
		r.afterEra, r.after = r.era, me.inFlight[n-1].offset+1
	}
	s.send(r)
	me.inFlight[n] = pending{used: 1, offset: me.next, id: c.id, events: r.events, answer: r.answer()}
	me.next++
}

// load says whether the store still holds what this writer stored last; if not it ends its lead.
func (w *world) load(s *state, g uint8, me *writer) bool {
	if s.stores[g].next == me.stored || w.without == loadChecks || w.without == refusedFlush {
		return true
	}
	*me = writer{phase: stopped}
	return false
}

// flush stores what was read as counted, and forgets it where nothing is in flight.
func (w *world) flush(s *state, i int) {
	me, g := &s.writers[i], w.logOf(i)
	if st := s.stores[g]; st.next != me.stored {
		if w.without != refusedFlush {
			*me = writer{phase: stopped}
			return
		}
		me.stored = st.next
	} else {
		s.old[g] = st
		st.next = me.read
		position, held := me.position, me.held
		if w.without == onlyCounted {
			for _, p := range me.inFlight {
				if p.used == 1 {
					position += p.events
					held[p.id] = p.answer
				}
			}
		}
		if me.position != none && position > st.position {
			st.position = position
		}
		for id, answer := range held {
			if answer != 0 {
				st.answers[id] = answer
			}
		}
		s.stores[g] = st
		me.stored = me.read
	}
	if me.inFlight[0].used == 0 {
		me.position, me.held = none, [ids]uint8{}
		me.heldFrom = w.place(s, g, me.read)
	}
}

// arrive sends the next command: the edge looked its id up before.
func (w *world) arrive(s *state) {
	id := w.commands[s.arrived] - 'a'
	c := command{id: id, known: w.place(s, 0, s.stores[0].next)}
	if answer := s.stores[0].answers[id]; answer != 0 {
		w.reply(s, 0, id, answer)
		c.known = 0
	}
	s.commands[s.arrived] = c
	s.arrived++
}

// move takes the next step of a migration.
func (w *world) move(s *state) {
	switch s.migrating {
	case 0:
		s.snapshot, s.migrating = s.length[0], 2
		if w.without != migrateCloses {
			a := w.fold(s, 0, s.length[0], nil)
			s.send(record{sort: closing, era: 1, lead: uint8(a.Lead) + 1, writer: migrator})
			s.migrating = 1
		}
	case 1:
		s.snapshot, s.migrating = s.length[0], 2
		if a := w.fold(s, 0, s.length[0], nil); !a.Closed {
			s.migrating = none
		}
	case 2:
		w.copyNext(s)
	}
}

func (w *world) copyNext(s *state) {
	if s.length[1] == 0 {
		s.put(record{log: 1, sort: lead, era: 1, lead: 1, writer: migrator})
		return
	}
	n := uint8(0)
	var next record
	a := w.fold(s, 0, s.snapshot, func(r record, _ streams.Acceptance, counted bool) {
		if counted && r.sort == commit {
			if n++; n == s.copied+1 {
				next = r
			}
		}
	})
	if s.copied < n {
		next.log, next.era, next.lead, next.writer = 1, 1, 1, migrator
		next.offset, next.after, next.afterEra = s.copied+1, s.copied, min(1, s.copied)
		s.put(next)
		s.copied++
	} else {
		s.base = w.nextCommand(a, 0)
		s.put(record{log: 1, sort: lead, era: 2, lead: 2, writer: migrator})
		s.migrating = 3
	}
	w.check(s, 1)
	if w.fold(s, 1, s.length[1], nil).Era == 2 && s.migrating == 3 {
		w.checkMigrated(s)
	}
}
