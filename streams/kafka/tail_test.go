package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestATailGivesWhatCountsAndMovesOverTheRest(t *testing.T) {
	config := topics(t)
	p := newPen(t, config)
	tailer, err := kafka.NewTailer(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tailer.Close)
	c := command("user-a", "1", account.Pro)
	p.append(config.Topics.Log(), nil, []byte("junk"))
	p.takeLead(1, penWriter)
	p.write(p.commit(c, 0, nil, 1))
	early := p.commit(c, 9, nil, 2)
	early.After.Offset = 8
	p.write(early)
	p.takeLead(1, "late")
	p.lead = 1
	p.write(p.commit(c, 1, nil, 2, 3))
	p.takeLead(2, "next") // counts: what follows from the pen does not
	p.lead = 1
	p.write(p.commit(c, 2, nil, 4))
	var all []streams.Commit
	var ends []streams.Checkpoint
	tail := func(from streams.Checkpoint, until int64) streams.Checkpoint {
		t.Helper()
		at := from
		stop := errors.New("enough")
		err := tailer.Tail(t.Context(), 0, from, func(_ context.Context, b streams.Batch) error {
			if b.From != at {
				t.Fatalf("a batch from %+v after %+v", b.From, at)
			}
			at = b.Next
			all = append(all, b.Commits...)
			ends = append(ends, at)
			if at.Next >= until {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		return at
	}
	end := tail(streams.Start(), 8)
	if len(all) != 2 || all[0].Place.Offset != 2 || all[1].Place.Offset != 5 || all[1].Events[1].Place.Index != 1 {
		t.Fatalf("got %+v", all)
	}
	want := streams.Checkpoint{Next: 8, Acceptance: streams.Acceptance{Era: 1, Lead: 2, Writer: "next", After: streams.CommandPlace{Era: 1, Offset: 1}}}
	if end != want {
		t.Fatalf("ended at %+v, want %+v", end, want)
	}
	// Live says the same, also to somebody who has seen nothing.
	fresh, err := kafka.NewTailer(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.Close)
	for _, who := range []*kafka.Tailer{tailer, fresh} {
		if live, err := who.Live(t.Context(), 0); err != nil || live != want {
			t.Fatalf("live is %+v (%v), want %+v", live, err, want)
		}
	}
	// Beyond the end there is nothing to tail from.
	err = tailer.Tail(t.Context(), 0, streams.Checkpoint{Next: 100}, func(context.Context, streams.Batch) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "reading partition 0") {
		t.Fatalf("beyond the end: %v", err)
	}
}

func TestATailStopsAtWhatNoWriterMayWrite(t *testing.T) {
	for name, wrong := range map[string]func(p *pen, c streams.Command){
		"a gap in a commit":     func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 3, 5)) },
		"a gap between commits": func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 4)) },
		"a position again":      func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 2)) },
		"a scope that begins late": func(p *pen, c streams.Command) {
			c.Scope = "user-b"
			p.write(p.commit(c, 1, nil, 2))
		},
		"another body": func(p *pen, c streams.Command) {
			value, err := codec.EncodeCommit(p.commit(c, 7, nil, 3))
			if err != nil {
				p.t.Fatal(err)
			}
			p.append(p.config.Topics.Log(), kafka.CommitHeaders(p.commit(c, 1, nil, 3), 3), value)
		},
		"bytes": func(p *pen, c streams.Command) {
			p.append(p.config.Topics.Log(), kafka.CommitHeaders(p.commit(c, 1, nil, 3), 3), []byte("{"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := topics(t)
			p := newPen(t, config)
			p.takeLead(1, penWriter)
			c := command("user-a", "1", account.Pro)
			p.write(p.commit(c, 0, nil, 1, 2))
			wrong(p, c)
			tailer, err := kafka.NewTailer(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(tailer.Close)
			handed, at := 0, streams.Start()
			err = tailer.Tail(t.Context(), 0, at, func(_ context.Context, b streams.Batch) error {
				handed, at = handed+len(b.Commits), b.Next
				return nil
			})
			var defect *kafka.Defect
			if !errors.As(err, &defect) || defect.Offset != 2 {
				t.Fatalf("ended with %v", err)
			}
			if handed != 1 || at.Next != 2 {
				t.Fatalf("%d commits were handed over before it, up to %d", handed, at.Next)
			}
			// Nor does one go past it that begins right before it, and knows no position of its scope.
			before := streams.Checkpoint{Next: 2, Acceptance: streams.Acceptance{Era: 1, Lead: 1, Writer: penWriter, After: streams.CommandPlace{Era: 1}}}
			err = tailer.Tail(t.Context(), 0, before, func(context.Context, streams.Batch) error { return errors.New("it went past the defect") })
			if !errors.As(err, &defect) || defect.Offset != 2 {
				t.Fatalf("the second tail ended with %v", err)
			}
			// In another process, too, where what lies before is stored.
			config.Around = around(map[domain.Scope][]int64{"user-a": {1, 1}}, 2)
			other, err := kafka.NewTailer(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.Close)
			err = other.Tail(t.Context(), 0, before, func(context.Context, streams.Batch) error { return errors.New("it went past the defect") })
			if !errors.As(err, &defect) || defect.Offset != 2 {
				t.Fatalf("the tail of another process ended with %v", err)
			}
			// Once an operator has voided it, it counts without events, whatever its body is.
			config.Voided = func(context.Context, int32) (map[int64]bool, error) { return map[int64]bool{2: true}, nil }
			again, err := kafka.NewTailer(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(again.Close)
			enough := errors.New("enough")
			err = again.Tail(t.Context(), 0, streams.Start(), func(_ context.Context, b streams.Batch) error {
				if b.Next.Next < 3 {
					return nil
				}
				if last := b.Commits[len(b.Commits)-1]; len(last.Events) != 0 || b.Next.Acceptance.After.Offset != 1 {
					t.Errorf("a voided commit is %+v", last)
				}
				return enough
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
		})
	}
}

// around is what is stored of a log up to an offset: where each scope's positions lie, in their order.
func around(stored map[domain.Scope][]int64, next int64) func(context.Context, int32, int64, domain.Scope, uint64) (streams.Around, error) {
	return func(_ context.Context, _ int32, _ int64, scope domain.Scope, position uint64) (streams.Around, error) {
		a, offsets := streams.Around{Next: next}, stored[scope]
		if n := position - 1; n > 0 && n <= uint64(len(offsets)) {
			a.Before = &offsets[n-1]
		}
		if position <= uint64(len(offsets)) {
			a.At = &offsets[position-1]
		}
		return a, nil
	}
}

// What is stored stops no reader at what is sound, nor where it says nothing: it is behind, ahead, or of an earlier era, or
// took a record that was voided since.
func TestATailThatBeginsInTheMiddleGoesOn(t *testing.T) {
	for name, stored := range map[string]struct {
		offsets []int64
		next    int64
	}{
		"as far":          {[]int64{1, 1}, 2},
		"ahead":           {[]int64{1, 1, 2}, 3},
		"behind":          {nil, 1},
		"nothing":         {nil, -1},
		"an earlier era":  {[]int64{-1, -1}, 2},
		"a voided record": {[]int64{1, 1, 0}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			config := topics(t)
			p := newPen(t, config)
			p.takeLead(1, penWriter)
			c := command("user-a", "1", account.Pro)
			p.write(p.commit(c, 0, nil, 1, 2))
			p.write(p.commit(c, 1, nil, 3))
			config.Voided = func(context.Context, int32) (map[int64]bool, error) { return map[int64]bool{0: true}, nil }
			config.Around = around(map[domain.Scope][]int64{"user-a": stored.offsets}, stored.next)
			tailer, err := kafka.NewTailer(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(tailer.Close)
			from := streams.Checkpoint{Next: 2, Acceptance: streams.Acceptance{Era: 1, Lead: 1, Writer: penWriter, After: streams.CommandPlace{Era: 1}}}
			enough := errors.New("enough")
			err = tailer.Tail(t.Context(), 0, from, func(_ context.Context, b streams.Batch) error {
				if len(b.Commits) > 0 {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
		})
	}
}

func TestLiveFramesArriveOpenedAndTravelSealed(t *testing.T) {
	config := topics(t)
	keys := memory.NewKeys()
	live, err := kafka.NewLive(config, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	got := make(chan streams.LiveFrame, 1000)
	run(t, func(ctx context.Context) error {
		return live.Follow(ctx, func(f streams.LiveFrame) { got <- f })
	})
	frame := func(n int) streams.LiveFrame {
		return streams.LiveFrame{
			Scope: "user-a", Stream: "thread-t", RunID: "r", Turn: 1, Attempt: 2, N: n, Kind: "text", Offset: 3, Blocks: 1,
			Text: fmt.Sprintf("secret <%d>", n), Data: []byte(`{"secret":1}`),
		}
	}
	// Follow begins at the end that it finds, so frames go out until the first arrives.
	n := 0
	for began := false; !began; {
		n++
		if err := live.Publish(t.Context(), frame(n)); err != nil {
			t.Fatal(err)
		}
		select {
		case f := <-got:
			if fmt.Sprint(f) != fmt.Sprint(frame(f.N)) {
				t.Fatalf("got %+v, want %+v", f, frame(f.N))
			}
			n = f.N
			began = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	for i := range 100 {
		if err := live.Publish(t.Context(), frame(10000+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 100; {
		if f := <-got; f.N >= 10000 {
			if fmt.Sprint(f) != fmt.Sprint(frame(10000+i)) {
				t.Fatalf("got %+v, want %+v", f, frame(10000+i))
			}
			i++
		}
	}
	for _, raw := range read(t, config.LiveSeeds, config.Topics.Live(), 100) {
		if strings.Contains(raw, "secret") {
			t.Fatalf("content travels in clear: %s", raw)
		}
	}
	// Without a key there is no frame.
	if err := keys.Destroy(t.Context(), "user-a"); err != nil {
		t.Fatal(err)
	}
	if err := live.Publish(t.Context(), frame(1)); !errors.Is(err, streams.ErrScopeErased) {
		t.Fatalf("after erasure: %v", err)
	}
}
