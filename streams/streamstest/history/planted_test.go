package history_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Each fault that is planted in a good log is found, under the name of the law that it breaks, and nothing else is.
func TestWhatIsWrongInTheLogIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*plot)
		laws  []history.Law
	}{
		"a version left out":            {func(p *plot) { p.versions[of("tally-x")]++ }, []history.Law{history.Versions}},
		"a version twice":               {func(p *plot) { p.versions[of("tally-x")]-- }, []history.Law{history.Versions}},
		"a position left out":           {func(p *plot) { p.positions[ann]++ }, []history.Law{history.Positions}},
		"a position twice":              {func(p *plot) { p.positions[ann]-- }, []history.Law{history.Positions}},
		"a hash that continues another": {func(p *plot) { p.hashes[of("tally-x")] = []byte("other") }, []history.Law{history.Chain}},
		"data changed after it was hashed": {func(p *plot) {
			p.change = func(c *streams.Commit) { c.Events[0].Data = []byte(`{"by":2}`) }
		}, []history.Law{history.Chain}},
		"a digest changed after it was hashed": {func(p *plot) {
			p.change = func(c *streams.Commit) { c.Events[0].SealDigest = []byte("x") }
		}, []history.Law{history.Chain}},
		"a command decided twice": {func(p *plot) {
			p.change = func(c *streams.Commit) {
				c.CommandID, c.Events = streams.CommandID(ann, "first"), nil
				p.positions[ann]--
				p.versions[of("tally-x")]--
				p.hashes[of("tally-x")] = p.hashBefore
			}
		}, []history.Law{history.OneCommit}},
		"an event id of another command": {func(p *plot) {
			p.change = func(c *streams.Commit) {
				c.Events[0].ID = streams.EventID(streams.CommandID(ann, "first"), 0)
				p.chain(c)
			}
		}, []history.Law{history.EventIDs}},
		"time that runs backwards": {func(p *plot) { p.now = p.now.Add(-time10) }, []history.Law{history.Clock}},
		"a command decided out of order": {func(p *plot) {
			p.change = func(c *streams.Commit) { c.CommandOffset-- }
		}, []history.Law{history.InOrder}},
		"events of no command": {func(p *plot) {
			p.change = func(c *streams.Commit) { c.Scope, c.CommandID = "", "" }
		}, []history.Law{history.OneCommit, history.Versions, history.Positions, history.Chain}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlot(t)
			p.commit(ann, "first", "tally-x")
			p.hashBefore = p.hashes[of("tally-x")]
			c.plant(p)
			p.commit(ann, "second", "tally-x")
			p.commit(ann, "third", "tally-x")
			v := judge(history.Evidence{Logs: []*history.Log{p.log()}})
			for _, law := range c.laws {
				if len(v.Broken(law)) == 0 {
					t.Errorf("%s is not found: %v", law, v.Err())
				}
			}
			if len(c.laws) == 1 {
				found(t, v, c.laws...)
			}
		})
	}
}

// A record that was changed on its way is found: in its value, its key or a header.
func TestARecordThatContradictsItselfIsFound(t *testing.T) {
	for name, change := range map[string]func(*kgo.Record){
		"a value that is none":      func(r *kgo.Record) { r.Value = []byte("x") },
		"a value of another format": func(r *kgo.Record) { r.Value = bytes.Replace(r.Value, []byte(`"v":1`), []byte(`"v":2`), 1) },
		"another lead in the body":  func(r *kgo.Record) { r.Value = bytes.Replace(r.Value, []byte(`"lead":1`), []byte(`"lead":2`), 1) },
		"another key":               func(r *kgo.Record) { r.Key = []byte("user-bob") },
		"another command's header":  func(r *kgo.Record) { setHeader(r, kafka.HeaderCommandID, streams.CommandID(ann, "other")) },
		"another position": func(r *kgo.Record) {
			setHeader(r, kafka.HeaderOutcome, `{"heads":["1 tally-x"],"position":9,"decided_at":"`+decided(r)+`"}`)
		},
		"other heads": func(r *kgo.Record) {
			setHeader(r, kafka.HeaderOutcome, `{"heads":["2 tally-x"],"position":1,"decided_at":"`+decided(r)+`"}`)
		},
		"no for yes": func(r *kgo.Record) {
			setHeader(r, kafka.HeaderOutcome, `{"rejected":{"code":"c"},"position":1,"decided_at":"`+decided(r)+`"}`)
		},
		"another time": func(r *kgo.Record) {
			setHeader(r, kafka.HeaderOutcome, `{"heads":["1 tally-x"],"position":1,"decided_at":"2000"}`)
		},
		"no outcome": func(r *kgo.Record) { r.Headers = r.Headers[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlot(t)
			p.commit(ann, "first", "tally-x")
			change(p.records[1])
			v := judge(history.Evidence{Logs: []*history.Log{p.log()}})
			if len(v.Broken(history.LogReadable)) == 0 {
				t.Fatalf("not found: %v", v.Err())
			}
		})
	}
}

// Readings that differ are found: a record that changed, went, came in between, or a log that lost its beginning.
func TestALogThatChangesIsFound(t *testing.T) {
	full := func() *plot {
		p := newPlot(t)
		for _, name := range []string{"a", "b", "c"} {
			p.commit(ann, name, "tally-x")
		}
		return p
	}
	first := full().log()
	changed := full()
	changed.records[2].Headers[0].Value = append(bytes.Clone(changed.records[2].Headers[0].Value), ' ')
	shorter := full()
	shorter.records = shorter.records[:3]
	holed := full()
	holed.records = slices.Delete(holed.records, 2, 3)
	more := full()
	more.commit(ann, "d", "tally-x")
	for name, second := range map[string]*plot{"changed": changed, "shorter": shorter, "with a hole": holed} {
		if v := history.Check(history.Evidence{Logs: []*history.Log{first, second.log()}}); len(v.Broken(history.LogStable)) == 0 {
			t.Errorf("a second reading that is %s is not found: %v", name, v.Err())
		}
	}
	found(t, history.Check(history.Evidence{Logs: []*history.Log{first, more.log()}}))
	found(t, history.Check(history.Evidence{Logs: []*history.Log{first}}), history.LogStable)
	cut := more.log()
	cut.Starts[0] = 1
	found(t, history.Check(history.Evidence{Logs: []*history.Log{first, cut}}), history.LogWhole)
}

// A product that counts what it must not, or the other way round, is found.
func TestAnotherAcceptanceRuleIsFound(t *testing.T) {
	p := newPlot(t)
	p.commit(ann, "a", "tally-x")
	late := *p.records[1]
	late.Offset = 3
	p.leads("w2")
	p.records = append(p.records, &late)
	p.commit(ann, "b", "tally-x")
	logs := []*history.Log{p.log()}
	found(t, judge(history.Evidence{Logs: logs}))
	lax := func(a streams.Acceptance, m streams.Mark) (streams.Acceptance, bool) {
		if m.Sort == streams.SortCommit {
			a.After = streams.CommandPlace{Era: m.Era, Offset: m.CommandOffset}
			return a, true
		}
		return a.Accept(m)
	}
	found(t, judge(history.Evidence{Logs: logs, Accept: lax}), history.Rule)
	last := func(a streams.Acceptance, m streams.Mark) (streams.Acceptance, bool) {
		if m.Sort == streams.SortLead {
			a.Lead = m.Lead - 1 // the last lead wins
		}
		return a.Accept(m)
	}
	p.lead--
	p.leads("w3")
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}, Accept: last}), history.Rule)
	p.lead, p.writer = 2, "w2"
	p.claim("w2", codec.KindClose)
	p.commit(ann, "c", "tally-x")
	if v := judge(history.Evidence{Logs: []*history.Log{p.log()}}); v.Commits != 2 {
		t.Errorf("a commit behind a close counts: %s", v.Table())
	}
}

// A scope that lies in another partition than Kafka's own clients put it in is found.
func TestAScopeElsewhereIsFound(t *testing.T) {
	p := newPlot(t)
	p.commit(ann, "a", "tally-x")
	right := kafka.PartitionOf(ann, 2)
	for at := range int32(2) {
		var laws []history.Law
		if at != right {
			laws = []history.Law{history.Placed}
		}
		for _, r := range p.records {
			r.Partition = at
		}
		found(t, judge(history.Evidence{Logs: []*history.Log{history.NewLog(2, p.records...)}}), laws...)
	}
}

// What an operator voided is no fault, and neither is the gap that it leaves.
func TestAVoidIsNoFault(t *testing.T) {
	p, rec := newPlot(t), history.New()
	sub := rec.Subscribe("reader", ann, "", 0)
	first := asked(rec, p, "a", "tally-x", "tally-y")
	bad := asked(rec, p, "b", "tally-x")
	p.records[2].Value = []byte("poison")
	last := asked(rec, p, "c", "tally-x", "tally-y")
	for _, c := range []*streams.Commit{first, last} {
		for _, e := range c.Events {
			sub.DeliveredEvent(e)
		}
	}
	sub.Level()
	e := history.Evidence{History: rec, Logs: []*history.Log{p.log()}}
	if v := judge(e); v.Err() == nil {
		t.Error("poison is not found")
	}
	e.Voids = map[int32]map[int64]bool{0: {bad.Place.Offset: true}}
	found(t, judge(e))
}

// What clients were told and the log does not say, or the other way round, is found.
func TestWhatClientsSawIsHeldAgainstTheLog(t *testing.T) {
	no := &domain.Rejection{Code: "nothing", Reason: "no"}
	for name, c := range map[string]struct {
		tell func(*plot, *history.Recorder)
		laws []history.Law
	}{
		"a lost acknowledgement": {func(_ *plot, r *history.Recorder) {
			r.Invoke("c", request1("lost")).Accepted(streams.Answer{})
		}, []history.Law{history.Acknowledged}},
		"a lost rejection": {func(_ *plot, r *history.Recorder) {
			r.Invoke("c", request1("lost")).Rejected(no)
		}, []history.Law{history.Acknowledged}},
		"yes for no": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			p.reject(ann, "b", "nothing")
			op.Accepted(streams.Answer{})
		}, []history.Law{history.Acknowledged}},
		"no for yes": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			p.commit(ann, "b", "tally-x")
			op.Rejected(no)
		}, []history.Law{history.Acknowledged}},
		"another rejection": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			p.reject(ann, "b", "other")
			op.Rejected(no)
		}, []history.Law{history.Acknowledged}},
		"another position": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			a := p.answer(p.commit(ann, "b", "tally-x"))
			a.Position.Position++
			op.Accepted(a)
		}, []history.Law{history.Acknowledged}},
		"another place": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			a := p.answer(p.commit(ann, "b", "tally-x"))
			a.Position.Offset++
			op.Accepted(a)
		}, []history.Law{history.Acknowledged}},
		"another version": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			a := p.answer(p.commit(ann, "b", "tally-x"))
			a.Heads[0].Version++
			op.Accepted(a)
		}, []history.Law{history.Acknowledged}},
		"a phantom": {func(p *plot, _ *history.Recorder) {
			p.commit(ann, "nobody", "tally-x")
		}, []history.Law{history.Phantom}},
		"a refused request that was decided": {func(p *plot, r *history.Recorder) {
			r.Invoke("c", request1("b")).Refused(errors.New("busy"))
			p.commit(ann, "b", "tally-x")
		}, []history.Law{history.Phantom}},
		"no, and later yes, to a repeat": {func(p *plot, r *history.Recorder) {
			op, again := r.Invoke("c", request1("b")), r.Invoke("c", request1("b"))
			op.Accepted(p.answer(p.commit(ann, "b", "tally-x")))
			again.Rejected(no)
		}, []history.Law{history.SameAnswer, history.Acknowledged}},
		"yes to another request under a used id": {func(p *plot, r *history.Recorder) {
			op := r.Invoke("c", request1("b"))
			other := r.Invoke("d", history.Request{Scope: ann, CommandID: streams.CommandID(ann, "b"), Fingerprint: "another"})
			a := p.answer(p.commit(ann, "b", "tally-x"))
			op.Accepted(a)
			other.Accepted(a)
		}, []history.Law{history.SameAnswer}},
		"a used id, and nobody used it": {func(_ *plot, r *history.Recorder) {
			r.Invoke("c", request1("b")).Rejected(&domain.Rejection{Code: domain.CodeIDReused})
		}, []history.Law{history.SameAnswer}},
		"a used id, and the same request used it": {func(_ *plot, r *history.Recorder) {
			r.Invoke("c", request1("a")).Rejected(&domain.Rejection{Code: domain.CodeIDReused})
		}, []history.Law{history.SameAnswer}},
		"an erased scope that is not": {func(_ *plot, r *history.Recorder) {
			r.Invoke("c", request1("b")).Rejected(&domain.Rejection{Code: domain.CodeScopeErased})
		}, []history.Law{history.Acknowledged}},
		"an order that time forbids": {func(p *plot, r *history.Recorder) {
			early := r.Invoke("c", request1("early"))
			early.Accepted(streams.Answer{})
			late := r.Invoke("d", request1("late"))
			late.Accepted(p.answer(p.commit(ann, "late", "tally-x")))
			p.commit(ann, "early", "tally-x")
		}, []history.Law{history.RealTime}},
	} {
		t.Run(name, func(t *testing.T) {
			p, rec := newPlot(t), history.New()
			asked(rec, p, "a", "tally-x")
			c.tell(p, rec)
			asked(rec, p, "z", "tally-x")
			found(t, judge(history.Evidence{History: rec, Logs: []*history.Log{p.log()}}), c.laws...)
		})
	}
}

// What looks strange and is right is no fault.
func TestWhatMayHappenIsNoFault(t *testing.T) {
	p, rec := newPlot(t), history.New()
	asked(rec, p, "a", "tally-x")
	rec.Invoke("c", request1("lost")).Unknown(errors.New("gone"))
	rec.Invoke("c", request1("never"))                           // it died
	rec.Invoke("c", request1("busy")).Refused(&streams.Busy{})   // and was not sent
	again := rec.Invoke("c", request1("late"))                   // two at once, the second sooner in the log
	other := rec.Invoke("d", request1("sooner"))                 //
	other.Accepted(p.answer(p.commit(ann, "sooner", "tally-x"))) //
	again.Accepted(p.answer(p.commit(ann, "late", "tally-x")))   //
	unknown := rec.Invoke("c", request1("unknown"))              //
	unknown.Unknown(streams.ErrOutcomeUnknown)                   // decided much later
	asked(rec, p, "between", "tally-x")                          //
	rec.Invoke("c", request1("unknown")).Accepted(p.answer(p.commit(ann, "unknown", "tally-x")))
	reused := rec.Invoke("c", history.Request{Scope: ann, CommandID: streams.CommandID(ann, "a"), Fingerprint: "another"})
	reused.Rejected(&domain.Rejection{Code: domain.CodeIDReused})
	p.change = func(c *streams.Commit) { c.Events[0].Type = "account.erased"; p.chain(c) }
	asked(rec, p, "erase", "account-ann")
	rec.Invoke("c", request1("after")).Rejected(&domain.Rejection{Code: domain.CodeScopeErased})
	found(t, judge(history.Evidence{History: rec, Logs: []*history.Log{p.log()}}))
	p.commit("user-bob", "own", "tally-x")
	mine := func(c *streams.Commit) bool { return c.Scope == ann }
	found(t, judge(history.Evidence{History: rec, Logs: []*history.Log{p.log()}, Invoked: mine}))
}

// A subscriber that misses an event, is given one twice, out of order, or one that the log does not have, is found.
func TestABrokenSubscriptionIsFound(t *testing.T) {
	p := newPlot(t)
	var all []streams.Recorded
	for _, name := range []string{"a", "b", "c", "d"} {
		all = append(all, p.commit(ann, name, "tally-x", "tally-y").Events...)
	}
	seqs := func(at ...int) []int { return at }
	for name, c := range map[string]struct {
		stream domain.Stream
		after  uint64
		given  []int // positions
		good   bool
	}{
		"everything":                 {"", 0, seqs(1, 2, 3, 4, 5, 6, 7, 8), true},
		"from a cursor":              {"", 4, seqs(5, 6, 7, 8), true},
		"one stream":                 {"tally-y", 0, seqs(2, 4, 6, 8), true},
		"a hole":                     {"", 0, seqs(1, 2, 4, 5, 6, 7, 8), false},
		"one twice":                  {"", 0, seqs(1, 2, 2, 3, 4, 5, 6, 7, 8), false},
		"two in the wrong order":     {"", 0, seqs(1, 3, 2, 4, 5, 6, 7, 8), false},
		"not the end":                {"", 0, seqs(1, 2, 3, 4), false},
		"the first ones again":       {"", 4, seqs(1, 2, 3, 4, 5, 6, 7, 8), false},
		"an event of another stream": {"tally-y", 0, seqs(2, 4, 5, 8), false},
	} {
		rec := history.New()
		sub := rec.Subscribe("reader", ann, c.stream, c.after)
		for _, n := range c.given {
			sub.DeliveredEvent(all[n-1])
		}
		sub.Level()
		var laws []history.Law
		if !c.good {
			laws = []history.Law{history.Unbroken}
		}
		t.Run(name, func(t *testing.T) {
			found(t, history.Check(history.Evidence{History: rec, Logs: []*history.Log{p.log(), p.log()}, Invoked: nobody}), laws...)
		})
	}
	for name, give := range map[string]func(*history.Subscriber){
		"beyond the end": func(s *history.Subscriber) { s.Delivered(9, "", nil) },
		"another event":  func(s *history.Subscriber) { s.Delivered(1, "x", nil) },
		"another hash":   func(s *history.Subscriber) { s.Delivered(1, all[0].ID, []byte("x")) },
		"after the reset": func(s *history.Subscriber) {
			s.Holding([]byte("x"))
			s.Reset(3, history.OtherHash)
			s.Delivered(5, "", nil)
		},
	} {
		rec := history.New()
		give(rec.Subscribe("reader", ann, "", 0))
		t.Run(name, func(t *testing.T) {
			found(t, history.Check(history.Evidence{History: rec, Logs: []*history.Log{p.log(), p.log()}, Invoked: nobody}), history.Unbroken)
		})
	}
	rec := history.New()
	sub := rec.Subscribe("reader", ann, "", 0)
	sub.Delivered(1, "", nil)
	sub.Holding([]byte("of a log that was put back"))
	sub.Reset(6, history.OtherHash)
	sub.Delivered(7, "", all[6].Hash)
	found(t, history.Check(history.Evidence{History: rec, Logs: []*history.Log{p.log(), p.log()}, Invoked: nobody}))
}

func nobody(*streams.Commit) bool { return false }
