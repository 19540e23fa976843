package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// Deciding on a stream of 100,000 events costs what it costs on one of 10: what is loaded, kept and stored is
// the state, which is as small.
func TestDecidingCostsTheSameOnALongStream(t *testing.T) {
	config := topics(t)
	schema, keys, states := release(t, 1, 1), memory.NewKeys(), memory.NewStates()
	long := streams.StreamKey{Scope: "user-long", Stream: "tally-x"}
	short := streams.StreamKey{Scope: "user-short", Stream: "tally-x"}
	const per, events = 1000, 100_000
	fill(t, config, schema, keys, events, per, func(int) streams.StreamKey { return long })

	w, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	ask, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, func(ctx context.Context) error { return errors.Join(w.Run(ctx), ctx.Err()) })
	defer stop()
	untilLeading(w)
	defer run(t, ask.Run)()
	if err := ask.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := map[domain.Scope][]time.Duration{}
	for i := range 210 {
		for _, scope := range []domain.Scope{short.Scope, long.Scope} {
			began := time.Now()
			mustAsk(t, ask, wish(scope, fmt.Sprint("ask ", i), add{Tally: "x", By: 1}))
			if i >= 10 {
				took[scope] = append(took[scope], time.Since(began))
			}
		}
	}
	middle := func(scope domain.Scope) time.Duration {
		slices.Sort(took[scope])
		return took[scope][len(took[scope])/2]
	}
	t.Logf("one ask: %s on %d events, %s on few", middle(long.Scope), events, middle(short.Scope))
	if middle(long.Scope) > 3*middle(short.Scope) {
		t.Errorf("an ask takes %s on %d events and %s on few", middle(long.Scope), events, middle(short.Scope))
	}
	stop()
	stored, err := states.Load(context.Background(), 0, streams.Lookup{Streams: []streams.StreamKey{long, short}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range stored.States {
		if len(row.State) > 20 {
			t.Errorf("the state of %s has %d bytes", row.Scope, len(row.State))
		}
		if row.Scope == long.Scope && row.Version != events+210 {
			t.Errorf("the long stream has version %d", row.Version)
		}
	}
}
