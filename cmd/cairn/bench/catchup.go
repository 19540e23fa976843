package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
)

// CatchupOptions bound a benchmark of coming back. Zeros have the default that stands beside them.
type CatchupOptions struct {
	FanoutOptions       // Connections are ignored
	Clients       int   // who come back at once: 1,000
	Behind        int   // events that each has missed: 1,000
	Streams       []int // over how many threads they are spread: 1, and 20
}

// The crowd that is level meanwhile, and what it is sent.
const (
	levelClients = 10
	levelRate    = 50
)

// Catchup measures many clients that come back at once, each far behind: how long until all are level, and what those saw who were
// level meanwhile, of Cairn and of centrifuge, which recovers from its history.
func Catchup(ctx context.Context, o CatchupOptions) (report Report, err error) {
	o.FanoutOptions = o.complete()
	o.Clients, o.Behind = cmp.Or(o.Clients, 1000), cmp.Or(o.Behind, 1000)
	if len(o.Streams) == 0 {
		o.Streams = []int{1, 20}
	}
	sides, end, err := o.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	report = Report{Bench: "catchup", Machine: ThisMachine()}
	for _, streams := range o.Streams {
		figures, err := o.spread(ctx, sides, streams)
		if err != nil {
			return report, err
		}
		report.Figures = append(report.Figures, figures...)
	}
	return report, nil
}

// comingBack is one side with its subjects: the first is the one that level clients listen to.
type comingBack struct {
	name     string
	subjects []side
	results  []caughtUp
}

type caughtUp struct {
	seconds     float64 // until all were level
	p99, before float64 // ms from commit to those who were level, meanwhile and before
}

func (o *CatchupOptions) spread(ctx context.Context, sides *fanoutSides, streams int) ([]Figure, error) {
	cairn, peer := &comingBack{name: "Cairn"}, &comingBack{name: "centrifuge"}
	for range streams {
		other, err := sides.cairn.another(ctx)
		if err != nil {
			return nil, err
		}
		cairn.subjects = append(cairn.subjects, other)
		peer.subjects = append(peer.subjects, sides.history.on("history", wishAtOnce))
	}
	for range o.Rounds {
		for _, c := range []*comingBack{cairn, peer} {
			r, err := o.turn(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%w (%s, %d streams)", err, c.name, streams)
			}
			c.results = append(c.results, r)
			fmt.Fprintf(o.Progress, "%d clients, %d events behind in %d streams, %s: level after %.2f s; meanwhile p99 %.2f ms, before %.2f\n",
				o.Clients, o.Behind, streams, c.name, r.seconds, r.p99, r.before)
		}
	}
	of := func(c *comingBack, f func(caughtUp) float64) (values []float64) {
		for _, r := range c.results {
			values = append(values, f(r))
		}
		return values
	}
	name := fmt.Sprintf("%d clients, %d behind, %d streams", o.Clients, o.Behind, streams)
	if streams == 1 {
		name = fmt.Sprintf("%d clients, %d behind, 1 stream", o.Clients, o.Behind)
	}
	seconds, p99, before := func(r caughtUp) float64 { return r.seconds }, func(r caughtUp) float64 { return r.p99 }, func(r caughtUp) float64 { return r.before }
	return []Figure{
		NewFigure(name+", until all are level", "s", of(cairn, seconds), of(peer, seconds), "centrifuge, from its history"),
		NewFigure(name+", commit to who was level, p99", "ms", of(cairn, p99), of(peer, p99), "centrifuge, from its history"),
		NewFigure(name+", commit to who was level, p99", "ms", of(cairn, p99), of(cairn, before), "before they came"),
	}, nil
}

// turn lets them miss events, and come back.
func (o *CatchupOptions) turn(ctx context.Context, c *comingBack) (r caughtUp, err error) {
	if err := o.known(ctx, c); err != nil {
		return r, err
	}
	fmt.Fprintf(o.Progress, "publishing what they miss, %d events, %s\n", len(c.subjects)*o.Behind, c.name)
	var calls []sockets.Call
	for i, s := range c.subjects {
		after := s.level()
		if err := o.miss(ctx, c, i); err != nil {
			return r, err
		}
		n := o.Clients / len(c.subjects)
		if i < o.Clients%len(c.subjects) {
			n++
		}
		some, err := s.calls(fmt.Sprintf("behind-%d", i), n, after)
		if err != nil {
			return r, err
		}
		calls = append(calls, some...)
	}
	first := c.subjects[0]
	listen, err := first.calls("level", levelClients, first.level())
	if err != nil {
		return r, err
	}
	level, err := sockets.Open(ctx, listen, levelClients)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, level.Close()) }()
	l := &levelCrowd{listening: &listening{side: first, crowd: level, connections: levelClients, next: 1}}
	quiet, err := l.deliveries(ctx, levelRate, min(o.Length, 3*time.Second))
	if err != nil {
		return r, err
	}
	r.before = quantile(quiet.since(quiet.committed, func(sockets.Seen) bool { return true }), 0.99)
	err = o.comeBack(ctx, l, calls, &r)
	return r, err
}

// known lets every client connect once, so that its device is known when it comes back.
func (o *CatchupOptions) known(ctx context.Context, c *comingBack) error {
	if len(c.results) > 0 {
		return nil
	}
	for i, s := range c.subjects {
		calls, err := s.calls(fmt.Sprintf("behind-%d", i), (o.Clients+len(c.subjects)-1)/len(c.subjects), s.level())
		if err != nil {
			return err
		}
		crowd, err := sockets.Open(ctx, calls, 64)
		if err == nil {
			err = crowd.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// miss publishes what they miss.
func (o *CatchupOptions) miss(ctx context.Context, c *comingBack, subject int) error {
	s := c.subjects[subject]
	order := s.subject()
	order.Do, order.From, order.Count = orderPublish, 1, int64(o.Behind)
	if _, err := s.server().ask(ctx, order); err != nil {
		return err
	}
	s.published(int64(o.Behind))
	return nil
}

// levelCrowd is who is level, and hears of something all the time.
type levelCrowd struct{ *listening }

// comeBack opens all sockets at once, and waits until each has what it missed.
func (o *CatchupOptions) comeBack(ctx context.Context, l *levelCrowd, calls []sockets.Call, r *caughtUp) (err error) {
	talking, hush := context.WithCancel(ctx)
	defer hush()
	var heard []deliveries
	var talk sync.WaitGroup
	var failed error
	begun := make(chan struct{})
	talk.Go(func() {
		start := sync.OnceFunc(func() { close(begun) })
		defer start()
		for talking.Err() == nil {
			d, err := l.deliveries(ctx, levelRate, 200*time.Millisecond)
			if err != nil {
				failed = err
				return
			}
			heard = append(heard, d)
			start() // what they hear is flowing
		}
	})
	<-begun
	began := time.Now()
	crowd, err := sockets.Open(ctx, calls, len(calls))
	if err == nil {
		err = crowd.Until(ctx, int64(o.Behind))
	}
	ended := time.Now()
	hush()
	talk.Wait()
	if crowd != nil {
		err = errors.Join(err, crowd.Close())
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	r.seconds = ended.Sub(began).Seconds()
	var took []time.Duration
	for _, d := range heard {
		said := d.committed
		if len(d.asked) > 0 {
			said = d.asked
		}
		took = append(took, d.since(d.committed, func(s sockets.Seen) bool { // what was said meanwhile, whenever it came
			at := said[s.Number-d.from]
			return at >= began.UnixNano() && at <= ended.UnixNano()
		})...)
	}
	if len(took) == 0 {
		return errors.New("bench: all were level before anything was published: let more clients come back, or further behind (--clients, --behind)")
	}
	slices.Sort(took)
	r.p99 = quantile(took, 0.99)
	return nil
}
