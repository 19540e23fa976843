package history_test

import (
	"testing"

	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// A reset whose reason does not hold is found, and all of them are counted.
func TestAResetWithoutAReasonIsFound(t *testing.T) {
	const head = 8
	for name, c := range map[string]struct {
		cursor, after uint64
		hash          string // of what it holds; "" is not told, "right" is the log's
		why           history.Why
		cut           int64 // where the log begins
		laws          []history.Law
	}{
		"beyond the head":                 {cursor: 9, after: head, why: history.Beyond},
		"another hash":                    {cursor: 3, after: head, hash: "x", why: history.OtherHash},
		"cut":                             {cursor: 1, after: head, why: history.Cut, cut: 3, laws: []history.Law{history.LogWhole}},
		"at the head":                     {cursor: head, after: head, why: history.Beyond, laws: []history.Law{history.Resets}},
		"before the head":                 {cursor: 3, after: head, why: history.Beyond, laws: []history.Law{history.Resets}},
		"the same hash":                   {cursor: 3, after: head, hash: "right", why: history.OtherHash, laws: []history.Law{history.Resets}},
		"a hash that nobody told":         {cursor: 3, after: head, why: history.OtherHash, laws: []history.Law{history.Resets}},
		"nothing cut":                     {cursor: 3, after: head, why: history.Cut, laws: []history.Law{history.Resets}},
		"cut, but not what it needs":      {cursor: 3, after: head, why: history.Cut, cut: 1, laws: []history.Law{history.LogWhole, history.Resets}},
		"no reason that there is":         {cursor: 3, after: head, why: "slow", laws: []history.Law{history.Resets}},
		"to a place that is not there":    {cursor: 12, after: 10, why: history.Beyond, laws: []history.Law{history.Resets}},
		"to the middle, and then nothing": {cursor: 9, after: 4, why: history.Beyond, laws: []history.Law{history.Unbroken}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlot(t)
			var hashes [][]byte
			for _, request := range []string{"a", "b", "c", "d"} {
				for _, e := range p.commit(ann, request, "tally-x", "tally-y").Events {
					hashes = append(hashes, e.Hash)
				}
			}
			rec := history.New()
			sub := rec.Subscribe("reader", ann, "", c.cursor)
			if c.hash == "right" {
				sub.Holding(hashes[c.cursor-1])
			} else if c.hash != "" {
				sub.Holding([]byte(c.hash))
			}
			sub.Reset(c.after, c.why)
			sub.Level()
			read := func() *history.Log {
				l := p.log()
				if c.cut > 0 { // the reading begins later, and knows what came before by its beginning only
					l.Starts[0] = c.cut
					l.Partitions[0] = l.Partitions[0][c.cut:]
				}
				return l
			}
			v := history.Check(history.Evidence{History: rec, Logs: []*history.Log{read(), read()}, Invoked: nobody})
			if v.Resets != 1 {
				t.Errorf("%d resets were counted", v.Resets)
			}
			for _, law := range []history.Law{history.Resets, history.Unbroken, history.LogWhole} {
				want := false
				for _, l := range c.laws {
					want = want || l == law
				}
				if got := len(v.Broken(law)) > 0; got != want {
					t.Errorf("%s broken: %v, want %v\n%v", law, got, want, v.Broken(law))
				}
			}
		})
	}
}
