package history_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// asks reads what an event asks from its type: "open a", "close a", "start a", "group g".
func asks(v streams.Recorded) (history.Asks, error) {
	verb, what, _ := strings.Cut(v.Type, " ")
	switch verb {
	case "open":
		return history.Asks{Opens: []domain.Effect{{ID: what, Group: "g"}}}, nil
	case "close":
		return history.Asks{Closes: []string{what}}, nil
	case "start":
		return history.Asks{Starts: []string{what}}, nil
	case "group":
		return history.Asks{Group: what}, nil
	case "scope":
		return history.Asks{Scope: true}, nil
	}
	return history.Asks{}, errors.New("unknown")
}

// An effect that ends twice, never, is begun twice, or is done twice though it must not be repeated, is found.
func TestAnEffectWithoutExactlyOneOutcomeIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		types []string
		once  int // how often it was done
		more  int // how often, though it may be
		rest  history.Resting
		good  bool
	}{
		"one outcome":                {[]string{"open a", "start a", "close a"}, 1, 3, history.AtRest, true},
		"ended with its group":       {[]string{"open a", "group g"}, 0, 0, history.AtRest, true},
		"ended with its scope":       {[]string{"open a", "scope"}, 0, 0, history.AtRest, true},
		"answered at once":           {[]string{"close a"}, 0, 0, history.AtRest, true},
		"none yet":                   {[]string{"open a"}, 1, 0, history.Running, true},
		"two outcomes":               {[]string{"open a", "close a", "close a"}, 0, 0, history.AtRest, false},
		"an outcome after its group": {[]string{"open a", "group g", "close a"}, 0, 0, history.AtRest, false},
		"answered at once, twice":    {[]string{"close a", "close a"}, 0, 0, history.AtRest, false},
		"asked for twice":            {[]string{"open a", "close a", "open a", "close a"}, 0, 0, history.AtRest, false},
		"never an outcome":           {[]string{"open a"}, 0, 0, history.AtRest, false},
		"begun twice":                {[]string{"open a", "start a", "start a", "close a"}, 0, 0, history.AtRest, false},
		"begun after its end":        {[]string{"open a", "close a", "start a"}, 0, 0, history.AtRest, false},
		"done twice":                 {[]string{"open a", "start a", "close a"}, 2, 0, history.AtRest, false},
		"done, and never asked for":  {nil, 1, 0, history.AtRest, false},
	} {
		p, rec := newPlot(t), history.New()
		for i, kind := range c.types {
			p.change = func(m *streams.Commit) { m.Events[0].Type = kind; p.chain(m); p.hashBefore = m.Events[0].Hash }
			p.commit(ann, string(rune('a'+i)), "tally-x")
		}
		for range c.once {
			rec.ExecutedOnce(ann, "a")
		}
		for range c.more {
			rec.Executed(ann, "a")
		}
		var laws []history.Law
		if !c.good {
			laws = []history.Law{history.OneOutcome}
		}
		t.Run(name, func(t *testing.T) {
			found(t, history.Check(history.Evidence{
				History: rec, Logs: []*history.Log{p.log(), p.log()}, Invoked: nobody, Effects: asks, Rest: c.rest,
			}), laws...)
		})
	}
}

// tally counts, as the aggregate of a stored state.
type tally struct {
	N int `json:"n"`
}

type added struct {
	By int `json:"by"`
}

type add struct{ To string }

func (a add) Target() domain.Stream { return domain.NewStream("tally", a.To) }

func (t tally) Decide(add) ([]added, error) { return []added{{1}}, nil }
func (t tally) Evolve(e added) tally        { return tally{t.N + e.By} }

func tallies(t *testing.T) *codec.Schema {
	t.Helper()
	schema, err := codec.New(domain.Single[tally, add, added]("tally", 1,
		[]domain.Kind{domain.Named[add]("tally.add")}, []domain.Kind{domain.Named[added]("tally.added")}))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// Stored states that are not the fold of the log are found: beside it, ahead of it, or with a hole in what they know.
func TestStoredStatesBesideTheLogAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*streams.Flush)
		good  bool
	}{
		"the fold":                {func(*streams.Flush) {}, true},
		"nothing yet":             {func(f *streams.Flush) { *f = streams.Flush{Expected: f.Expected, Next: f.Expected} }, true},
		"of another release":      {func(f *streams.Flush) { f.States[0].Fold, f.States[0].State = 2, []byte(`{}`) }, true},
		"another state":           {func(f *streams.Flush) { f.States[0].State = []byte(`{"n":9}`) }, false},
		"another hash":            {func(f *streams.Flush) { f.States[0].Hash = []byte("x") }, false},
		"a version ahead":         {func(f *streams.Flush) { f.States[0].Version++ }, false},
		"a position ahead":        {func(f *streams.Flush) { f.Scopes[0].Position++ }, false},
		"erased":                  {func(f *streams.Flush) { f.Scopes[0].Erased = true }, false},
		"a checkpoint ahead":      {func(f *streams.Flush) { f.Next.Next += 5 }, false},
		"a checkpoint of another": {func(f *streams.Flush) { f.Next.Acceptance.Writer = "w9" }, false},
		"an answer left out":      {func(f *streams.Flush) { f.Answers = f.Answers[1:] }, false},
		"another answer":          {func(f *streams.Flush) { f.Answers[0].Position++ }, false},
		"no for yes":              {func(f *streams.Flush) { f.Answers[0].Rejected = &domain.Rejection{Code: "x"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlot(t)
			f := streams.Flush{Expected: streams.Start()}
			for _, request := range []string{"a", "b"} {
				m := p.commit(ann, request, "tally-x")
				f.Answers = append(f.Answers, kafka.AnswerOf(*m, p.positions[ann]))
			}
			f.States = []streams.StateRow{{Scope: ann, Stream: "tally-x", Version: 2, Hash: p.hashes[of("tally-x")], Fold: 1, State: []byte(`{"n":2}`)}}
			f.Scopes = []streams.ScopeRow{{Scope: ann, Position: 2}}
			f.Next = streams.Checkpoint{Next: 3, Acceptance: streams.Acceptance{Era: 1, Lead: 1, Writer: "w1", After: p.after}}
			c.plant(&f)
			store := memory.NewStates()
			if err := store.Store(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			faults, err := history.States(t.Context(), history.Evidence{Logs: []*history.Log{p.log()}}, store, tallies(t))
			if err != nil || (len(faults) == 0) != c.good {
				t.Fatal(faults, err)
			}
		})
	}
}

// A log that was moved and is not the same any more is found.
func TestAMoveThatChangesAnythingIsFound(t *testing.T) {
	write := func(change func(*streams.Commit)) *plot {
		p := newPlot(t)
		p.commit(ann, "a", "tally-x")
		p.commit("user-bob", "a", "tally-x", "tally-y")
		p.change = change
		p.commit(ann, "b", "tally-x", "tally-y")
		return p
	}
	from := write(nil)
	from.reject(ann, "c", "no")
	for name, c := range map[string]struct {
		change func(*streams.Commit)
		more   func(*plot)
		good   bool
	}{
		"the same":            {nil, func(p *plot) { p.reject(ann, "c", "no") }, true},
		"under other leads":   {nil, func(p *plot) { p.leads("w2"); p.reject(ann, "c", "no") }, true},
		"and goes on":         {nil, func(p *plot) { p.reject(ann, "c", "no"); p.commit(ann, "d", "tally-x") }, true},
		"a commit left out":   {nil, func(*plot) {}, false},
		"another answer":      {nil, func(p *plot) { p.reject(ann, "c", "other") }, false},
		"another command":     {nil, func(p *plot) { p.reject(ann, "d", "no") }, false},
		"other sealed bytes":  {func(c *streams.Commit) { c.Events[0].Sealed = []byte("x") }, func(p *plot) { p.reject(ann, "c", "no") }, false},
		"data encoded anew":   {func(c *streams.Commit) { c.Events[0].Data = []byte(`{"by": 1}`) }, func(p *plot) { p.reject(ann, "c", "no") }, false},
		"another time":        {func(c *streams.Commit) { c.DecidedAt = c.DecidedAt[:25] + "1Z" }, func(p *plot) { p.reject(ann, "c", "no") }, false},
		"an event less":       {func(c *streams.Commit) { c.Events = c.Events[:1] }, func(p *plot) { p.reject(ann, "c", "no") }, false},
		"another fingerprint": {func(c *streams.Commit) { c.Fingerprint = []byte("x") }, func(p *plot) { p.reject(ann, "c", "no") }, false},
	} {
		p := write(c.change)
		c.more(p)
		if faults := history.CheckMoved(from.log(), p.log(), nil); (len(faults) == 0) != c.good {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// The longest time without an answer counts only while somebody waits.
func TestUnavailableIsTheLongestWaitOfAnybody(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	start := now
	rec := history.New(history.WithClock(func() time.Time { return now }))
	pass := func(d time.Duration) { now = now.Add(d) }
	a := rec.Invoke("c", request1("a"))
	pass(time.Second)
	a.Accepted(streams.Answer{})
	pass(time.Hour) // nobody waits
	b := rec.Invoke("c", request1("b"))
	pass(3 * time.Second)
	b.Unknown(errors.New("gone"))
	c := rec.Invoke("c", request1("b"))
	pass(4 * time.Second)
	c.Accepted(streams.Answer{})
	mid := now
	rec.Invoke("d", request1("d"))
	pass(2 * time.Second)
	rec.Invoke("c", request1("e")).Rejected(&domain.Rejection{})
	if got := rec.Unavailable(time.Time{}, time.Time{}, nil); got != 7*time.Second {
		t.Errorf("%v of the whole", got)
	}
	if got := rec.Unavailable(mid, now, nil); got != 2*time.Second {
		t.Errorf("%v of the end", got)
	}
	if got := rec.Unavailable(start, mid, func(q history.Request) bool { return q.Fingerprint == "a" }); got != time.Second {
		t.Errorf("%v of a", got)
	}
	if got := rec.Counts(mid, time.Time{}); got != (history.Counts{Asked: 2, Rejected: 1, Unknown: 1}) {
		t.Errorf("%+v", got)
	}
	var out bytes.Buffer
	if err := rec.Dump(&out); err != nil || strings.Count(out.String(), "\n") != 5 {
		t.Error(err, out.String())
	}
}

// Read reads every record of every partition as it stands in the broker, to the end that there was.
func TestReadReadsTheWholeLog(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	config := kafka.Config{Seeds: cluster.ListenAddrs(), Topics: kafka.Topics{Partitions: 3}}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := newPlot(t)
	for i := range 300 {
		p.wish(string(rune('a' + i)))
		p.commit(ann, string(rune('a'+i)), "tally-x", "tally-y")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	at := kafka.PartitionOf(ann, 3)
	all := slices.Concat(p.records, p.commands)
	for _, r := range all {
		r.Partition = at
	}
	if err := client.ProduceSync(ctx, all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var logs []*history.Log
	for range 2 {
		l, err := history.Read(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
		var trimmed kadm.Offsets
		trimmed.AddOffset(config.Topics.Commands(), at, 299, -1)
		if _, err := kadm.NewClient(client).DeleteRecords(ctx, trimmed); err != nil {
			t.Fatal(err)
		}
	}
	v := history.Check(history.Evidence{Logs: logs})
	found(t, v)
	if v.Commits != 300 || v.Events != 600 || logs[0].Ends[at] != 301 || v.Commands != 300 || len(logs[1].Commands.Partitions[at]) != 1 {
		t.Fatal(v.Table())
	}
}
