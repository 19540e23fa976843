package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// ChatOptions bound a benchmark of chatting. Zeros have the default that stands beside them.
type ChatOptions struct {
	Dir      string        // scratch; a temporary directory, removed afterwards
	Rounds   int           // 5
	Turn     time.Duration // how long each kind of request is asked in a round: 4 s
	Within   time.Duration // the whole: 85 s
	Progress io.Writer     // what it is doing; nobody
}

// Chat measures what the ring adds to a model and a device: the time from the model's first delta to the client's first
// stream_text, and a run with one tool call. Everything is as in `cairn dev`, with synced writes; the model answers
// at once. One request runs at a time, each in a thread of its own, and each is routed to an agent first.
func Chat(ctx context.Context, o ChatOptions) (report Report, err error) {
	o.Rounds, o.Turn, o.Within = cmp.Or(o.Rounds, 5), cmp.Or(o.Turn, 4*time.Second), cmp.Or(o.Within, 85*time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Within, fmt.Errorf("bench: not done within %s", o.Within))
	defer cancel()
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	fmt.Fprintln(o.Progress, "starting Cairn with all roles, a model server and a device")
	s, err := startStage(ctx, o.Dir, o.Progress)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	l, err := newChatLimits(ctx, s)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var c chatSeries
	for round := range o.Rounds + 1 {
		length := o.Turn
		if round == 0 { // a warm-up, which does not count
			length = min(length, time.Second)
		}
		r, err := chatRound(ctx, s, l, length)
		if err != nil {
			return Report{}, cmp.Or(context.Cause(ctx), err)
		}
		if round == 0 {
			continue
		}
		c.add(r)
		fmt.Fprintf(o.Progress, "round %d of %d: %d answers, first text after %.2f ms (p99 %.2f); %d runs with a tool call, %.1f ms each\n",
			round, o.Rounds, len(r.added), r.at(r.added, 0.5), r.at(r.added, 0.99), len(r.whole), r.at(r.whole, 0.5))
	}
	return Report{Bench: "chat", Machine: ThisMachine(), Figures: c.figures()}, nil
}

// round is what one round measured, each list sorted.
type round struct {
	added, relay  []time.Duration
	whole, ring   []time.Duration
	produced      []time.Duration // the same number of synced produces as a run made, one after the other
	commits       float64         // of a run with a tool call
	model, device time.Duration   // of such a run, medians
}

func (round) at(sorted []time.Duration, share float64) float64 { return quantile(sorted, share) }

// quantile of a sorted list, in milliseconds.
func quantile(sorted []time.Duration, share float64) float64 {
	return float64(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]) / float64(time.Millisecond)
}

// chatRound measures answers, the relay of the same answers, runs with a tool call, and what those consist of without a ring.
func chatRound(ctx context.Context, s *stage, l *chatLimits, length time.Duration) (r round, err error) {
	for began := time.Now(); time.Since(began) < length; {
		t, err := s.ask(ctx, sayText)
		if err != nil {
			return r, err
		}
		r.added = append(r.added, t.added)
	}
	if r.relay, err = l.relayed(ctx, s, len(r.added)); err != nil {
		return r, err
	}
	from, err := l.end(ctx)
	if err != nil {
		return r, err
	}
	var devices []time.Duration
	for began := time.Now(); time.Since(began) < length; {
		t, err := s.ask(ctx, sayTool)
		if err != nil {
			return r, err
		}
		r.whole, devices = append(r.whole, t.whole), append(devices, t.device)
	}
	to, err := l.end(ctx)
	if err != nil {
		return r, err
	}
	r.commits = float64(to-from) / float64(len(r.whole))
	if r.model, err = l.modelAlone(ctx, s); err != nil {
		return r, err
	}
	if r.produced, err = l.produces(ctx, int(2*r.commits+0.5)); err != nil {
		return r, err
	}
	for i, whole := range r.whole {
		r.ring = append(r.ring, max(0, whole-devices[i]-r.model))
	}
	for _, list := range [][]time.Duration{r.added, r.relay, r.whole, r.ring, r.produced, devices} {
		slices.Sort(list)
	}
	r.device = devices[len(devices)/2]
	return r, nil
}

// chatSeries are all rounds.
type chatSeries struct{ rounds []round }

func (c *chatSeries) add(r round) { c.rounds = append(c.rounds, r) }

func (c *chatSeries) of(value func(round) float64) []float64 {
	values := make([]float64, len(c.rounds))
	for i, r := range c.rounds {
		values[i] = value(r)
	}
	return values
}

// firstTextGoal is how many milliseconds the ring may add to the first words.
const firstTextGoal = 10

func (c *chatSeries) figures() []Figure {
	const relay, produces = "a bare relay of the same stream", "as many synced produces, one after the other"
	ms := func(list func(round) []time.Duration, share float64) []float64 {
		return c.of(func(r round) float64 { return quantile(list(r), share) })
	}
	added, relayed := func(r round) []time.Duration { return r.added }, func(r round) []time.Duration { return r.relay }
	whole, ring := func(r round) []time.Duration { return r.whole }, func(r round) []time.Duration { return r.ring }
	produced := func(r round) []time.Duration { return r.produced }
	// The goal is for the time itself, and so the figure that has it has no limit.
	goal := NewFigure("first delta to first stream_text, p99", "ms", ms(added, 0.99), nil, "").Aim(AtMost, firstTextGoal)
	return []Figure{
		goal,
		NewFigure("the same, p50, against a relay", "ms", ms(added, 0.5), ms(relayed, 0.5), relay),
		NewFigure("the same, p99, against a relay", "ms", ms(added, 0.99), ms(relayed, 0.99), relay),
		NewFigure("run with one tool call, p50", "ms", ms(whole, 0.5), nil, ""),
		NewFigure("run with one tool call, p99", "ms", ms(whole, 0.99), nil, ""),
		NewFigure("of it added by the ring, p50", "ms", ms(ring, 0.5), ms(produced, 0.5), produces),
		NewFigure("of it added by the ring, p99", "ms", ms(ring, 0.99), ms(produced, 0.99), produces),
		NewFigure("of it the model's calls without a ring", "ms", c.of(func(r round) float64 { return float64(r.model) / 1e6 }), nil, ""),
		NewFigure("of it the device", "ms", c.of(func(r round) float64 { return float64(r.device) / 1e6 }), nil, ""),
		NewFigure("records it leaves in the log", "records", c.of(func(r round) float64 { return r.commits }), nil, ""),
	}
}
