package leadmodel_test

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
)

// search visits every reachable state and answers the steps to the first violation, if there is one.
func (w *world) search() (trace []string, broken string) {
	seen := map[uint64]struct{}{}
	seed := maphash.MakeSeed()
	var visit func(s *state) bool
	visit = func(s *state) bool {
		h := maphash.Comparable(seed, *s)
		if _, ok := seen[h]; ok {
			return false
		}
		seen[h] = struct{}{}
		if s.answered[0] != 0 && (s.answered[1] != 0 || !strings.Contains(w.commands, "b")) {
			w.ends++
		}
		found := false
		w.steps(s, func(name string, i int, take func(*state)) {
			if found {
				return
			}
			next := *s
			take(&next)
			if w.broken != "" || visit(&next) {
				trace = append(trace, fmt.Sprintf("%s %d", name, i))
				found = true
			}
		})
		return found
	}
	visit(&state{})
	w.states = len(seen)
	for i, j := 0, len(trace)-1; i < j; i, j = i+1, j-1 {
		trace[i], trace[j] = trace[j], trace[i]
	}
	return trace, w.broken
}

// steps offers every step that can be taken.
func (w *world) steps(s *state, offer func(name string, i int, take func(*state))) {
	if int(s.arrived) < len(w.commands) {
		offer("arrive", int(s.arrived), w.arrive)
	}
	for i := range w.writers {
		me, g := s.writers[i], w.logOf(i)
		switch me.phase {
		case asleep:
			if i == 0 || s.writers[i-1].phase != asleep || g == 1 {
				offer("start", i, func(s *state) { w.start(s, i) })
			}
			continue
		case stopped:
			continue
		}
		if me.read < s.length[g] {
			offer("read", i, func(s *state) { w.read(s, i) })
		}
		if w.flushes && me.read > me.stored { // also before it leads
			offer("flush", i, func(s *state) { w.flush(s, i) })
		}
		if me.phase != leading {
			continue
		}
		arrived := s.arrived
		if g == 1 {
			arrived -= min(arrived, s.base)
		}
		if me.next < arrived && me.inFlight[w.pipeline-1].used == 0 {
			offer("decide", i, func(s *state) { w.decide(s, i) })
		}
	}
	for i := range int(s.sentCount) {
		if i > 0 && s.sent[i] == s.sent[i-1] {
			continue
		}
		offer("land", i, func(s *state) { w.land(s, i, false) })
		if int(s.duplicates) < w.duplicates {
			offer("land twice", i, func(s *state) { w.land(s, i, true) })
		}
	}
	if int(s.restores) < w.restores && s.old[0] != s.stores[0] {
		offer("restore", 0, func(s *state) { s.stores[0] = s.old[0]; s.restores++ })
	}
	if w.migrate && s.migrating < 3 {
		offer("migrate", int(s.migrating), w.move)
	}
}

// The protocol as it is: every schedule keeps the promises.
func TestLeadingKeepsItsPromises(t *testing.T) {
	for name, w := range map[string]world{
		"appends that land twice":     {commands: "aba", writers: 2, pipeline: 2, duplicates: 2},
		"three writers":               {commands: "ab", writers: 3, pipeline: 2},
		"states stored and forgotten": {commands: "aba", writers: 2, pipeline: 2, flushes: true},
		"stored, and landing twice":   {commands: "aa", writers: 2, pipeline: 2, flushes: true, duplicates: 1},
		"the store set back":          {commands: "aba", writers: 2, pipeline: 2, flushes: true, restores: 1},
		"migration":                   {commands: "ab", writers: 3, pipeline: 1, migrate: true},
		"migration, pipelined":        {commands: "aba", writers: 2, pipeline: 2, migrate: true, duplicates: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trace, broken := w.search()
			if broken != "" {
				t.Fatalf("%s, after\n%s", broken, strings.Join(trace, "\n"))
			}
			if w.ends == 0 {
				t.Fatal("no schedule answered all commands: the model shows nothing")
			}
			t.Logf("%d states, %d with everything answered", w.states, w.ends)
		})
	}
}

// Each mechanism is needed: without it the search finds a schedule that breaks a promise.
func TestEveryMechanismIsNeeded(t *testing.T) {
	for _, w := range []world{
		{without: readBack, commands: "aa", writers: 2, pipeline: 1},
		{without: afterChain, commands: "ab", writers: 1, pipeline: 2},
		{without: firstLeadWins, commands: "ab", writers: 2, pipeline: 2, duplicates: 1},
		{without: freshWriterID, commands: "ab", writers: 2, pipeline: 2},
		{without: idsInFlight, commands: "aa", writers: 1, pipeline: 2},
		{without: repeatWaits, commands: "aa", writers: 2, pipeline: 2},
		{without: refusedFlush, commands: "aba", writers: 2, pipeline: 1, flushes: true},
		{without: loadChecks, commands: "aba", writers: 1, pipeline: 1, flushes: true, restores: 1},
		{without: onlyCounted, commands: "ab", writers: 2, pipeline: 2, flushes: true},
		{without: readsOn, commands: "ab", writers: 2, pipeline: 2},
		{without: asksTable, commands: "aba", writers: 1, pipeline: 1, flushes: true},
		{without: migrateCloses, commands: "ab", writers: 2, pipeline: 1, migrate: true},
		{without: migrateEndsMark, commands: "ab", writers: 2, pipeline: 1, migrate: true},
	} {
		t.Run(string(w.without), func(t *testing.T) {
			t.Parallel()
			trace, broken := w.search()
			if broken == "" {
				t.Fatalf("%d states and no violation: the model is blind to it", w.states)
			}
			t.Logf("%s, after %d steps of %d states: %s", broken, len(trace), w.states, strings.Join(trace, ", "))
		})
	}
}
