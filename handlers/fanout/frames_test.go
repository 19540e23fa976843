package fanout_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
)

func text(run string, turn, n, offset int, says string) streams.LiveFrame {
	return streams.LiveFrame{Scope: user(1), Stream: "thread-a", RunID: run, Turn: turn, Attempt: 1, N: n, Kind: "text", Offset: offset, Text: says}
}

// TestProvisionalFramesNeverMoveACursor: they are joined where they wait, dropped when their turn was delivered, and the
// committed events come all the same.
func TestProvisionalFramesNeverMoveACursor(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	say := <-s.live.to
	s.append(user(1), opened("thread-a"))
	r := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a", Live: fanout.Live})
	other := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a"})
	for i := range 100 {
		say(text("r", 1, i+1, 2*i, "ab"))
	}
	say(streams.LiveFrame{Scope: user(1), Stream: "thread-a", RunID: "r", Turn: 1, Attempt: 1, N: 101, Kind: "block", Offset: 200, Text: "chart", Data: []byte(`{}`)})
	say(text("r", 1, 103, 202, "gap"))
	r.pull(1 << 20)
	if len(r.live) != 3 || r.live[0].Text != strings.Repeat("ab", 100) || r.live[0].Offset != 0 || r.live[0].N != 100 || r.live[1].Kind != "block" || r.live[2].Offset != 202 {
		t.Errorf("%d frames: %+v", len(r.live), r.live)
	}
	if r.at != 1 || len(r.got) != 0 {
		t.Errorf("the cursor is at %d", r.at)
	}
	if other.pull(1 << 20); len(other.live) > 0 {
		t.Errorf("who did not ask for them has %d", len(other.live))
	}
	r.live = nil
	say(text("r", 1, 104, 205, "late"))
	s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.TurnCompleted{RunID: "r", Turn: 1, Attempt: 1}})
	say(text("r", 2, 1, 0, "next"))
	r.until(t, 1<<20, func() bool { return r.at == 2 })
	say(text("r", 1, 105, 209, "too late"))
	say(text("r", 2, 2, 4, " turn"))
	r.until(t, 1<<20, func() bool { return strings.HasSuffix(toldBy(r), "turn") })
	if got := toldBy(r); got != "next turn" && got != "late"+"next turn" {
		t.Errorf("after the turn was committed it is told %q", got)
	}
	late := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a", From: fanout.After(1), Live: fanout.Recent})
	late.until(t, 1<<20, func() bool { return late.at == 2 && len(late.live) > 0 })
	if got := toldBy(late); got != "next turn" {
		t.Errorf("who comes late and asks for what is recent is told %q", got)
	}
}

func toldBy(r *reader) (all string) {
	for _, f := range r.live {
		all += f.Text
	}
	return all
}

// TestSlowReadersKeepNothing: frames that nobody takes are forgotten, events are not.
func TestSlowReadersKeepNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	say := <-s.live.to
	s.append(user(1), opened("thread-a"))
	r := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a", Live: fanout.Live})
	for i := range 5000 {
		say(text("r", 1, i+1, i, "x"))
	}
	for range 10 {
		s.append(user(1), opened("thread-a"))
	}
	r.until(t, 1000, func() bool { return r.at == 11 })
	told := 0
	for _, f := range r.live {
		told += len(f.Text)
	}
	if told > 1024 || len(r.got) != 10 {
		t.Errorf("%d of 5000 frames were kept, and %d events came", told, len(r.got))
	}
	if last := r.live[len(r.live)-1]; last.N != 5000 {
		t.Errorf("the newest frame is %d", last.N)
	}
}
