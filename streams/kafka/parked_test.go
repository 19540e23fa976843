package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// TestWhatIsParkedKeepsItsIDInTheNextEra: an item is the same one after a migration, so one that has ended stays ended and
// one that is replayed twice is decided once; and what is parked in the new era from the place that another had in the old
// one is an item of its own.
func TestWhatIsParkedKeepsItsIDInTheNextEra(t *testing.T) {
	from := newSite(t, 1, 1, memory.NewKeys())
	ask, stop := from.writer()
	from.produce(&kgo.Record{Topic: from.config.Topics.Commands(), Value: []byte("of the old era")})
	_, err := ask.Ask(t.Context(), wish("user-a", "1", add{Tally: "x", By: 1, Do: "panic"}))
	if err == nil {
		t.Fatal("it was accepted")
	}
	mustAsk(t, ask, wish("user-a", "2", add{Tally: "x", By: 1}))
	stop()
	was := from.parked()
	if len(was) != 2 {
		t.Fatalf("parked in the old era: %+v", was)
	}
	for _, i := range was {
		if i.Scope == "user-a" {
			if err := from.config.EndParked(t.Context(), i, kafka.EndDropped, "by a test"); err != nil {
				t.Fatal(err)
			}
		}
	}
	to := newSite(t, 3, 2, from.keys)
	if _, err := migrate(from, to); err != nil {
		t.Fatal(err)
	}
	ask, stop = to.writer()
	defer stop()
	cl := client(t, to.config.Seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: to.config.Topics.Commands(), Value: []byte("of the new era")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, ask, wish(lastOf(to.config.Topics, 0), "3", add{Tally: "x", By: 1}))
	stop()
	is := map[string]kafka.ParkedItem{}
	for _, i := range to.parked() {
		is[i.ID] = i
	}
	if len(is) != 3 {
		t.Errorf("parked in the new era: %+v", is)
	}
	for _, i := range was {
		if now, ok := is[i.ID]; !ok || (now.End == kafka.EndDropped) != (i.Scope == "user-a") || now.Offset != i.Offset || now.Era != 1 {
			t.Errorf("%+v became %+v", i, now)
		}
		if whole, err := to.config.Parked(t.Context(), i.ID); err != nil || len(whole.Value) == 0 || whole.End != is[i.ID].End {
			t.Errorf("%s: %+v, %v", i.ID, whole, err)
		}
	}
}

func (s *site) parked() []kafka.ParkedItem {
	s.t.Helper()
	items, err := s.config.ReadParked(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return items
}
