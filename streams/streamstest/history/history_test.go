package history_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// A history without a fault is found to have none.
func TestAGoodHistoryHasNoFault(t *testing.T) {
	p, rec := newPlot(t), history.New()
	sub := rec.Subscribe("reader", ann, "", 0)
	for i := range 5 {
		c := asked(rec, p, string(rune('a'+i)), "tally-x", "tally-y")
		for _, e := range c.Events {
			sub.DeliveredEvent(e)
		}
		if i == 2 {
			p.leads("w2")
		}
	}
	op := rec.Invoke("client", request1("no"))
	p.reject(ann, "no", "nothing")
	op.Rejected(&domain.Rejection{Code: "nothing", Reason: "no"})
	sub.Level()
	v := judge(history.Evidence{History: rec, Logs: []*history.Log{p.log()}})
	found(t, v)
	if v.Ops.Accepted != 5 || v.Ops.Rejected != 1 || v.Commits != 6 || v.Events != 10 || v.Leads != 2 || v.Deliveries != 10 {
		t.Fatal(v.Table())
	}
}
