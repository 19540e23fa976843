package history_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// publish is what a correct publisher makes of commits.
func publish(t *testing.T, commits ...*streams.Commit) []*kgo.Record {
	t.Helper()
	offsets := map[string]int64{}
	var all []*kgo.Record
	for _, c := range commits {
		for _, e := range c.Events {
			name, err := feed.Of(e.Stream)
			if err != nil {
				continue
			}
			e.CommandID, e.CorrelationID, e.CausationID, e.Era = c.CommandID, c.CorrelationID, c.CausationID, c.Era
			event, err := feed.New(e, e.Data, e.Schema)
			if err != nil {
				t.Fatal(err)
			}
			r := &kgo.Record{Topic: kafka.Topics{}.Feed(name), Offset: offsets[name], Key: []byte(e.Scope), Value: event.Data}
			offsets[name]++
			for _, a := range event.Attributes {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
			}
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "content-type", Value: []byte(feed.ContentType)},
				kgo.RecordHeader{Key: kafka.HeaderResume, Value: []byte("1 1 1 0 -1 w1")})
			if c.Trace != "" {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: kafka.HeaderTrace, Value: []byte(c.Trace)})
			}
			all = append(all, r)
		}
	}
	return all
}

// A feed that lacks an event, has one twice, out of order, of a commit that does not count, or says anything of it that
// the log does not say, is found.
func TestAFeedBesideTheLogIsFound(t *testing.T) {
	p := newPlot(t)
	p.leads("w2")
	var commits []*streams.Commit
	for _, request := range []string{"a", "b", "c"} {
		if request == "b" {
			p.change = func(c *streams.Commit) { c.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }
		}
		commits = append(commits, p.commit(ann, request, "thread-x", "tally-x", "thread-y", "device-z"))
	}
	before := p.after
	p.change = func(c *streams.Commit) { c.Writer = "w1" } // a zombie's
	zombie := p.commit(ann, "zombie", "thread-x")
	p.after = before
	l := p.log()
	drop := func(i int) func([]*kgo.Record) []*kgo.Record {
		return func(r []*kgo.Record) []*kgo.Record { return slices.Delete(r, i, i+1) }
	}
	set := func(name, value string) func([]*kgo.Record) []*kgo.Record {
		return func(r []*kgo.Record) []*kgo.Record { setHeader(r[4], name, value); return r }
	}
	more := func(name, value string) func([]*kgo.Record) []*kgo.Record {
		return func(r []*kgo.Record) []*kgo.Record {
			r[4].Headers = append(r[4].Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			return r
		}
	}
	for name, c := range map[string]struct {
		plant func([]*kgo.Record) []*kgo.Record
		rest  history.Resting
		good  bool
	}{
		"what the log says":     {func(r []*kgo.Record) []*kgo.Record { return r }, history.AtRest, true},
		"behind, while it runs": {func(r []*kgo.Record) []*kgo.Record { return r[:5] }, history.Running, true},
		"raised data": {func(r []*kgo.Record) []*kgo.Record {
			setHeader(r[4], "ce_schemaversion", "2")
			r[4].Value = []byte(`{}`)
			return r
		}, history.AtRest, true},
		"a new major version": {func(r []*kgo.Record) []*kgo.Record {
			setHeader(r[4], "ce_type", "tally.added.v2")
			setHeader(r[4], "ce_dataschema", "x/tally.added/v2.json")
			return r
		}, history.AtRest, true},
		"the first one lost":      {drop(0), history.AtRest, false},
		"one lost between":        {drop(3), history.Running, false},
		"the last one lost":       {drop(8), history.AtRest, false},
		"all of them lost":        {func([]*kgo.Record) []*kgo.Record { return nil }, history.AtRest, false},
		"one twice":               {func(r []*kgo.Record) []*kgo.Record { return slices.Insert(r, 4, r[3]) }, history.AtRest, false},
		"the last one twice":      {func(r []*kgo.Record) []*kgo.Record { return append(r, r[7]) }, history.AtRest, false},
		"two in the wrong order":  {func(r []*kgo.Record) []*kgo.Record { r[0], r[1] = r[1], r[0]; return r }, history.AtRest, false},
		"one that does not count": {func(r []*kgo.Record) []*kgo.Record { return append(r, publish(t, zombie)...) }, history.AtRest, false},
		"one of no commit":        {set("ce_id", "00000000-0000-0000-0000-000000000000"), history.Running, false},
		"one of nothing":          {func(r []*kgo.Record) []*kgo.Record { return append(r, &kgo.Record{Topic: r[0].Topic}) }, history.AtRest, false},
		"in another feed":         {func(r []*kgo.Record) []*kgo.Record { r[2].Topic = kafka.Topics{}.Feed("memory"); return r }, history.Running, false},
		"in an unknown feed":      {func(r []*kgo.Record) []*kgo.Record { r[2].Topic = kafka.Topics{}.Feed("x"); return r }, history.Running, false},
		"in another partition":    {func(r []*kgo.Record) []*kgo.Record { r[2].Partition = 1; return r }, history.Running, false},
		"another key":             {func(r []*kgo.Record) []*kgo.Record { r[4].Key = []byte("user-bob"); return r }, history.AtRest, false},
		"another type":            {set("ce_type", "tally.removed.v1"), history.AtRest, false},
		"a type of no version":    {set("ce_type", "tally.added"), history.AtRest, false},
		"another schema":          {set("ce_dataschema", "x/tally.added/v9.json"), history.AtRest, false},
		"another version":         {set("ce_streamversion", "9"), history.AtRest, false},
		"another sequence":        {set("ce_sequence", "00000000000000000009"), history.AtRest, false},
		"another position":        {set("ce_position", "9"), history.AtRest, false},
		"another stream":          {set("ce_subject", "thread-q"), history.AtRest, false},
		"another time":            {set("ce_time", "2026-11-30T00:00:00.000000Z"), history.AtRest, false},
		"another place":           {set("ce_logoffset", "1"), history.AtRest, false},
		"a resume behind itself":  {set(kafka.HeaderResume, "99 1 1 0 -1 w1"), history.AtRest, false},
		"no type":                 {without("ce_type"), history.AtRest, false},
		"another trace":           {set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"), history.AtRest, false},
		"no trace":                {without("traceparent"), history.AtRest, false},
		"an attribute more":       {more("ce_secret", "x"), history.AtRest, false},
		"a header twice":          {more("ce_id", "x"), history.AtRest, false},
		"sealed bytes beside it":  {more("x", "sealed"), history.AtRest, false},
		"sealed bytes in raised": {func(r []*kgo.Record) []*kgo.Record {
			setHeader(r[4], "ce_schemaversion", "2")
			r[4].Value = []byte(`{"text":"c2VhbGVk"}`)
			return r
		}, history.AtRest, false},
		"sealed bytes in the data": {func(r []*kgo.Record) []*kgo.Record { r[4].Value = []byte(`{"by":1,"x":"sealed"}`); return r }, history.AtRest, false},
		"other data":               {func(r []*kgo.Record) []*kgo.Record { r[4].Value = []byte(`{"by":2}`); return r }, history.AtRest, false},
		"an older shape":           {set("ce_schemaversion", "0"), history.AtRest, false},
	} {
		var laws []history.Law
		if !c.good {
			laws = []history.Law{history.FeedsCarry}
		}
		t.Run(name, func(t *testing.T) {
			feeds := history.NewFeeds(kafka.Topics{}, c.plant(publish(t, commits...))...)
			found(t, history.Check(history.Evidence{Logs: []*history.Log{l, l}, Feeds: feeds, Rest: c.rest}), laws...)
		})
	}
	half := history.NewFeeds(kafka.Topics{}, publish(t, commits...)[:5]...)
	if n := half.Behind(l); n != 4 {
		t.Errorf("%d events behind, not 4", n)
	}
	grown := append(commits, p.commit(ann, "later", "thread-x"))
	found(t, history.Check(history.Evidence{Logs: []*history.Log{l, l}, Feeds: history.NewFeeds(kafka.Topics{}, publish(t, grown...)...), Rest: history.AtRest}))
}

// without takes a header away.
func without(name string) func([]*kgo.Record) []*kgo.Record {
	return func(r []*kgo.Record) []*kgo.Record {
		r[4].Headers = slices.DeleteFunc(r[4].Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
		return r
	}
}

// What was published before its commit was voided may stay, and may be missing.
func TestAVoidedEventMayBeInItsFeed(t *testing.T) {
	p := newPlot(t)
	first, voided, last := p.commit(ann, "a", "thread-x"), p.commit(ann, "b", "thread-y"), p.commit(ann, "c", "thread-z")
	voids := map[int32]map[int64]bool{0: {voided.Place.Offset: true}}
	for _, published := range [][]*streams.Commit{{first, voided, last}, {first, last}} {
		feeds := history.NewFeeds(kafka.Topics{}, publish(t, published...)...)
		found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}, Feeds: feeds, Voids: voids, Rest: history.AtRest}))
	}
}

// The checker and the product mean the same feed for each kind of stream.
func TestEveryKindOfStreamIsPublishedWhereTheProductSays(t *testing.T) {
	p := newPlot(t)
	var all []domain.Stream
	for _, a := range aggregates.All() {
		all = append(all, domain.NewStream(a.Kind, "x"))
	}
	c := p.commit(ann, "a", all...)
	records := publish(t, c)
	if len(records) != len(all) {
		t.Fatalf("%d of %d kinds are published", len(records), len(all))
	}
	found(t, judge(history.Evidence{Logs: []*history.Log{p.log()}, Feeds: history.NewFeeds(kafka.Topics{}, records...), Rest: history.AtRest}))
}

// Whatever was put aside is found, unless it was meant to be.
func TestWhatIsParkedIsFound(t *testing.T) {
	p := newPlot(t)
	p.commit(ann, "a", "tally-x")
	record := func(headers ...string) *kgo.Record {
		r := &kgo.Record{}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return r
	}
	event := record(kafka.HeaderParkedPolicy, "greeter", kafka.HeaderParkedEvent, "e1", "reason_poisoned", "no")
	command := record(kafka.HeaderCommandID, "c1", kafka.HeaderParkedReason, "no")
	end := record(kafka.HeaderParkedItem, "0-0", kafka.HeaderParkedEnd, kafka.EndDropped)
	for name, c := range map[string]struct {
		parked []*kgo.Record
		meant  string
		laws   []history.Law
	}{
		"nothing":                {},
		"an event":               {parked: []*kgo.Record{event}, laws: []history.Law{history.NothingAside}},
		"a command":              {parked: []*kgo.Record{command}, laws: []history.Law{history.NothingAside}},
		"one that was given up":  {parked: []*kgo.Record{event, end}, laws: []history.Law{history.NothingAside}},
		"meant":                  {parked: []*kgo.Record{command}, meant: "c1"},
		"one meant, another not": {parked: []*kgo.Record{command, event}, meant: "c1", laws: []history.Law{history.NothingAside}},
	} {
		t.Run(name, func(t *testing.T) {
			found(t, judge(history.Evidence{
				Logs: []*history.Log{p.log()}, Parked: history.NewParked(c.parked...), Meant: func(p history.Parked) bool { return p.What == c.meant },
			}), c.laws...)
		})
	}
}

// ReadFeeds reads what transactions committed, and nothing of what they aborted; ReadParked what was put aside.
func TestTheFeedsAreReadAsFarAsTheyAreCommitted(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	config := kafka.Config{Seeds: cluster.ListenAddrs(), Topics: kafka.Topics{Partitions: 2}}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	write := func(id string, end kgo.TransactionEndTry) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, name := range feed.Names() {
			for partition := range int32(2) {
				r := &kgo.Record{Topic: config.Topics.Feed(name), Partition: partition, Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte(id)}}}
				if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	write("a", kgo.TryCommit)
	write("b", kgo.TryAbort)
	write("c", kgo.TryCommit)
	write("d", kgo.TryAbort) // the last record of each partition is a marker
	feeds, err := history.ReadFeeds(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range feeds.Lines {
		ids := line.Feed + ":"
		for _, r := range line.Records {
			ids += r.Headers["ce_id"]
		}
		got = append(got, ids)
	}
	var want []string
	for _, name := range feed.Names() {
		want = append(want, name+":ac", name+":ac")
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, not %v", got, want)
	}
	plain, err := kgo.NewClient(kgo.SeedBrokers(config.Seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.ProduceSync(ctx, &kgo.Record{Topic: config.Topics.Parked(), Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: kafka.HeaderCommandID, Value: []byte("c1")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	parked, err := history.ReadParked(ctx, config)
	if err != nil || len(parked) != 1 || parked[0].What != "c1" {
		t.Errorf("read %v, %v", parked, err)
	}
}
