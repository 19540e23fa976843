package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
)

// FanoutOptions bound a benchmark of delivering. Zeros have the default that stands beside them.
type FanoutOptions struct {
	Binary      string        // this program, which serves as well
	Peer        string        // the built peer; "": it is built from the checkout
	Dir         string        // scratch; a temporary directory, removed afterwards
	Connections []int         // 1, 1,000 and 5,000
	Rounds      int           // turns of each kind: 3
	Length      time.Duration // of a turn at a steady rate, and of one as fast as it goes: 8 s
	Profile     string        // a folder for profiles of Cairn; "": none
	Progress    io.Writer     // what it is doing; nobody
}

func (o FanoutOptions) complete() FanoutOptions {
	if len(o.Connections) == 0 {
		o.Connections = []int{1, 1000, 5000}
	}
	o.Rounds, o.Length = cmp.Or(o.Rounds, 3), cmp.Or(o.Length, 8*time.Second)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// The goals, at 1,000 connections and more, against centrifuge with its history on.
const (
	deliveriesGoal = 1.3
	delayGoal      = 1
	memoryGoal     = 1
)

// Fanout measures deliveries to many sockets: as many as go, how long each takes at a steady rate, and what an idle connection
// costs, of Cairn and of centrifuge in turns, each in a process of its own with the same clients. Cairn's events are commits, its
// clients authorised devices that each subscribe to the thread on its own, from where they are; centrifuge is handed the same bytes.
func Fanout(ctx context.Context, o FanoutOptions) (report Report, err error) {
	o = o.complete()
	sides, end, err := o.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	report = Report{Bench: "fanout", Machine: ThisMachine()}
	for _, n := range o.Connections {
		figures, err := o.size(ctx, sides, n)
		if err != nil {
			return report, err
		}
		report.Figures = append(report.Figures, figures...)
	}
	return report, nil
}

// start starts Cairn and the peer.
func (o *FanoutOptions) start(ctx context.Context) (*fanoutSides, func() error, error) {
	cairn, endCairn, err := o.startCairn(ctx)
	if err != nil {
		return nil, nil, err
	}
	peer, err := o.startPeer(ctx, cairn.payload)
	if err != nil {
		return nil, nil, errors.Join(err, endCairn())
	}
	return &fanoutSides{
		cairn: cairn, history: peer.on("history", wishAtOnce), delayed: peer.on("history", wishDelayed),
		plain: peer.on("plain", wishAtOnce), plainDelayed: peer.on("plain", wishDelayed),
	}, func() error { return errors.Join(peer.process.end(), endCairn()) }, nil
}

// startCairn starts Cairn in the scratch directory, which ends with it where it is a temporary one.
func (o *FanoutOptions) startCairn(ctx context.Context) (_ *ours, end func() error, err error) {
	tidy := func() error { return nil }
	if o.Dir == "" {
		if o.Dir, err = scratch(); err != nil {
			return nil, nil, err
		}
		tidy = func() error { return os.RemoveAll(o.Dir) }
	}
	fmt.Fprintln(o.Progress, "starting Cairn")
	cairn, err := startOurs(ctx, o.Binary, o.Dir)
	if err != nil {
		return nil, nil, errors.Join(err, tidy())
	}
	return cairn, func() error { return errors.Join(cairn.process.end(), tidy()) }, nil
}

func (o *FanoutOptions) startPeer(ctx context.Context, payload [2]string) (*centrifuge, error) {
	if o.Peer == "" {
		fmt.Fprintln(o.Progress, "building the peer")
		var err error
		if o.Peer, err = buildPeer(ctx, o.Dir); err != nil {
			return nil, err
		}
	}
	return startCentrifuge(ctx, o.Peer, payload)
}

// fanoutSides are those that are compared.
type fanoutSides struct {
	cairn                                 *ours
	history, delayed, plain, plainDelayed *centrifuge
}

// fanoutSample is one turn of one side.
type fanoutSample struct {
	rate         float64 // deliveries a second
	cpu          float64 // µs of the server's processor time a delivery
	p50, p99     float64 // ms from commit to client
	asked        float64 // p99 in ms from the command, for Cairn
	memory       float64 // KiB for an idle connection
	goroutines   float64 // for an idle connection
	connectedFor float64 // s until all were level
}

// size measures all sides with so many connections, in turns.
func (o *FanoutOptions) size(ctx context.Context, sides *fanoutSides, n int) ([]Figure, error) {
	all := []struct {
		name string
		side side
		into []fanoutSample
	}{
		{name: "Cairn", side: sides.cairn}, {name: "centrifuge, history", side: sides.history},
		{name: "centrifuge, history, 10 ms", side: sides.delayed}, {name: "centrifuge", side: sides.plain},
		{name: "centrifuge, 10 ms", side: sides.plainDelayed},
	}
	for round := range o.Rounds {
		for i := range all {
			a := &all[i]
			s, err := o.turn(ctx, a.side, n, fmt.Sprintf("%d-%d", n, round))
			if err != nil {
				return nil, fmt.Errorf("%w (%s, %d connections)", err, a.name, n)
			}
			a.into = append(a.into, s)
			fmt.Fprintf(o.Progress, "%d connected, %s: %.0f deliveries/s (%.2f µs each), p50 %.2f ms, p99 %.2f, %.1f KiB and %.1f goroutines a connection, level after %.1f s\n",
				n, a.name, s.rate, s.cpu, s.p50, s.p99, s.memory, s.goroutines, s.connectedFor)
		}
	}
	return fanoutFigures(n, all[0].into, all[1].into, all[2].into, all[3].into, all[4].into), nil
}

func fanoutFigures(n int, cairn, history, delayed, plain, plainDelayed []fanoutSample) []Figure {
	of := func(all []fanoutSample, f func(fanoutSample) float64) (values []float64) {
		for _, s := range all {
			values = append(values, f(s))
		}
		return values
	}
	// Of the two ways to write, the peer is given the better for what is measured.
	better := func(a, b []float64, pick func(...float64) float64) []float64 {
		both := make([]float64, len(a))
		for i := range a {
			both[i] = pick(a[i], b[i])
		}
		return both
	}
	most := func(v ...float64) float64 { return slices.Max(v) }
	least := func(v ...float64) float64 { return slices.Min(v) }
	name := fmt.Sprintf("%d connections", n)
	if n == 1 {
		name = "1 connection"
	}
	var figures []Figure
	add := func(what, unit string, f func(fanoutSample) float64, pick func(...float64) float64, goalIs string, goal float64) {
		against := NewFigure(name+", "+what, unit, of(cairn, f), better(of(history, f), of(delayed, f), pick), "centrifuge with history")
		if goalIs != "" && n > 1 {
			against = against.Aim(goalIs, goal)
		}
		figures = append(figures, against,
			NewFigure(name+", "+what, unit, of(cairn, f), better(of(plain, f), of(plainDelayed, f), pick), "centrifuge without history"))
	}
	add("as many as go", "deliveries/s", func(s fanoutSample) float64 { return s.rate }, most, AtLeast, deliveriesGoal)
	add("processor time of the server", "µs/delivery", func(s fanoutSample) float64 { return s.cpu }, least, "", 0)
	add("commit to client, p50", "ms", func(s fanoutSample) float64 { return s.p50 }, least, "", 0)
	add("commit to client, p99", "ms", func(s fanoutSample) float64 { return s.p99 }, least, AtMost, delayGoal)
	figures = append(figures, NewFigure(name+", command to client, p99", "ms", of(cairn, func(s fanoutSample) float64 { return s.asked }), nil, ""))
	if n > 1 {
		add("memory", "KiB/connection", func(s fanoutSample) float64 { return s.memory }, least, AtMost, memoryGoal)
	}
	return figures
}

// turn measures one side once.
func (o *FanoutOptions) turn(ctx context.Context, s side, n int, name string) (sample fanoutSample, err error) {
	if err := o.warm(ctx, s, n); err != nil {
		return sample, err
	}
	before, err := settled(ctx, s.server())
	if err != nil {
		return sample, err
	}
	calls, err := s.calls("many", n, s.level())
	if err != nil {
		return sample, err
	}
	began := time.Now()
	crowd, err := sockets.Open(ctx, calls, 64)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	sample.connectedFor = time.Since(began).Seconds()
	after, err := settled(ctx, s.server())
	if err != nil {
		return sample, err
	}
	sample.memory = float64(after.Bytes-before.Bytes) / 1024 / float64(n)
	sample.goroutines = float64(after.Goroutines-before.Goroutines) / float64(n)
	if err := o.profile(ctx, s, "idle-"+name, 0); err != nil {
		return sample, err
	}
	l := &listening{side: s, crowd: crowd, connections: n}
	if err := l.steady(ctx, steadyRate(n), o.Length, &sample); err != nil {
		return sample, err
	}
	if err := o.profile(ctx, s, "flood-"+name, o.Length); err != nil {
		return sample, err
	}
	if err := l.flood(ctx, o.Length, &sample); err != nil {
		return sample, err
	}
	if err := crowd.Close(); err != nil {
		return sample, err
	}
	return sample, crowd.Exact(1, l.next, sockets.AnyOrder)
}

// profile makes a profile of Cairn, where they are wished for.
func (o *FanoutOptions) profile(ctx context.Context, s side, name string, length time.Duration) error {
	c, ok := s.(*ours)
	if !ok || o.Profile == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(o.Profile, name+".pprof"))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	_, err = c.process.ask(ctx, order{Do: orderProfile, Path: path, Seconds: length.Seconds()})
	return err
}

// warm lets everybody connect once, and publishes a little, until the server has nothing to do any more: devices become known,
// buffers are filled.
func (o *FanoutOptions) warm(ctx context.Context, s side, n int) (err error) {
	calls, err := s.calls("many", n, s.level())
	if err != nil {
		return err
	}
	crowd, err := sockets.Open(ctx, calls, 64)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	l := &listening{side: s, crowd: crowd, connections: n}
	if err := l.steady(ctx, steadyRate(n), min(o.Length, time.Second), &fanoutSample{}); err != nil {
		return err
	}
	_, err = settled(ctx, s.server())
	return err
}

// settled is the memory of a server that has nothing to do any more: the least of many looks, until none has been less for a while.
func settled(ctx context.Context, s *obedient) (least answered, err error) {
	const (
		same  = 4  // looks without less
		looks = 40 // at most
	)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for i, since := 0, 0; since < same && i < looks; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return least, ctx.Err()
		}
		a, err := s.ask(ctx, order{Do: orderMemory})
		if err != nil {
			return least, err
		}
		since++
		if i == 0 || a.Bytes < least.Bytes-least.Bytes/200 {
			since = 0
		}
		if i == 0 || a.Bytes < least.Bytes {
			least = a
		}
	}
	return least, nil
}
