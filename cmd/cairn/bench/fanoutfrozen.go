package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
)

// A frozen client subscribes so many times, so that it is sent more than the kernel keeps for it within moments.
const frozenSubscriptions = 32

// The goals of a frozen client among many.
const (
	frozenDelayGoal  = 1.25 // of the others' p99, beside it without one
	frozenMemoryGoal = 8    // MiB
)

// frozen is a client that stops reading, and comes back.
type frozen struct {
	cairn *ours
	conn  *websocket.Conn
	last  [frozenSubscriptions]int64 // by subscription, the newest seq that it has
	wrong int                        // events that were not the next
}

// smallWindow is what the kernel takes for a client before it freezes, in bytes; when it comes back it is as any other.
const smallWindow = 32 << 10

// dial connects, and subscribes after what it has. The kernel keeps so many bytes for it, 0 as many as it likes.
func (f *frozen) dial(ctx context.Context, window int) error {
	calls, err := f.cairn.calls("frozen", 1, 0)
	if err != nil {
		return err
	}
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && window > 0 {
			err = errors.Join(err, tcp.SetReadBuffer(window))
		}
		return conn, err
	}}
	conn, response, err := dialer.DialContext(ctx, strings.Replace(f.cairn.process.url, "http", "ws", 1)+calls[0].Path, header(calls[0]))
	if err != nil {
		return fmt.Errorf("bench: connect the frozen client: %w", err)
	}
	response.Body.Close()
	f.conn = conn
	said := []string{calls[0].Say[0]}
	for i, after := range f.last {
		said = append(said, fmt.Sprintf(`{"type":"subscribe","id":"%d","stream":%q,"after":%d}`, i, f.cairn.stream, after))
	}
	for _, s := range said {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(s)); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

// read reads until every subscription has an event, or the socket ends; then it says how.
func (f *frozen) read(ctx context.Context, until int64) error {
	stop := context.AfterFunc(ctx, func() { f.conn.Close() })
	defer stop()
	for f.behind(until) {
		_, raw, err := f.conn.ReadMessage()
		if err != nil {
			return err
		}
		var frame struct {
			Type         string
			Subscription int64 `json:",string"`
			Message      string
			Events       []struct{ Seq int64 }
		}
		if err := json.Unmarshal(raw, &frame); err != nil && strings.Contains(string(raw), `"events"`) {
			return fmt.Errorf("bench: a frame that can't be read: %s", raw)
		}
		if frame.Type == "error" || frame.Type == "reset" {
			return fmt.Errorf("bench: the frozen client was told %s", raw)
		}
		for _, e := range frame.Events {
			if e.Seq != f.last[frame.Subscription]+1 {
				f.wrong++
			}
			f.last[frame.Subscription] = e.Seq
		}
	}
	return nil
}

func (f *frozen) behind(until int64) bool {
	for _, last := range f.last {
		if last < until {
			return true
		}
	}
	return false
}

// Frozen measures what one client that stops reading, with everything it is sent waiting for it, costs a Cairn with many others:
// its memory, and what the others notice. Then it reads on, comes back, and has missed nothing.
func Frozen(ctx context.Context, o FanoutOptions) (report Report, err error) {
	o = o.complete()
	cairn, end, err := o.startCairn(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	n := 1000
	if len(o.Connections) == 1 {
		n = o.Connections[0]
	}
	if err := o.warm(ctx, cairn, n); err != nil {
		return Report{}, err
	}
	calls, err := cairn.calls("many", n, cairn.level())
	if err != nil {
		return Report{}, err
	}
	crowd, err := sockets.Open(ctx, calls, 64)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	l := &listening{side: cairn, crowd: crowd, connections: n}
	var r frozenRounds
	for range o.Rounds {
		if err := r.round(ctx, o, l, cairn); err != nil {
			return Report{}, err
		}
	}
	if err := crowd.Close(); err != nil {
		return Report{}, err
	}
	if err := crowd.Exact(1, l.next, sockets.AnyOrder); err != nil {
		return Report{}, err
	}
	name := fmt.Sprintf("%d connections and a frozen one", n)
	return Report{Bench: "fanout --frozen", Machine: ThisMachine(), Figures: []Figure{
		NewFigure(name+", commit to the others, p50", "ms", r.p50, r.p50Without, "without it"),
		NewFigure(name+", commit to the others, p99", "ms", r.p99, r.p99Without, "without it").Aim(AtMost, frozenDelayGoal),
		NewFigure(name+", memory while it is frozen", "MiB", r.memory, nil, "").Aim(AtMost, frozenMemoryGoal),
		NewFigure(name+", events that waited for it", "events", r.waited, nil, ""),
		NewFigure(name+", events that it missed or had twice", "events", r.wrong, nil, "").Aim(AtMost, 0),
	}}, nil
}

type frozenRounds struct{ p50, p99, p50Without, p99Without, memory, waited, wrong []float64 }

// round is one turn without a frozen client and one with it.
func (r *frozenRounds) round(ctx context.Context, o FanoutOptions, l *listening, cairn *ours) (err error) {
	const (
		fills  = 5 * time.Second  // until nothing more can be written to it
		closes = 25 * time.Second // until it is closed for that, at the latest: a write that was half taken has its time twice
	)
	rate := steadyRate(l.connections)
	var without, with fanoutSample
	if err := l.steady(ctx, rate, o.Length, &without); err != nil {
		return err
	}
	before, err := settled(ctx, cairn.process)
	if err != nil {
		return err
	}
	f := &frozen{cairn: cairn}
	for i := range f.last {
		f.last[i] = cairn.level()
	}
	if err := f.dial(ctx, smallWindow); err != nil {
		return err
	}
	defer func() { f.conn.Close() }()
	if err := l.steady(ctx, rate, 100*time.Millisecond, &fanoutSample{}); err != nil {
		return err
	}
	if err := f.read(ctx, cairn.level()); err != nil { // it is level, and then it reads no more
		return fmt.Errorf("bench: the client that is to freeze: %w", err)
	}
	froze := cairn.level()
	if err := l.steady(ctx, rate, fills, &fanoutSample{}); err != nil {
		return err
	}
	frozen, err := cairn.process.ask(ctx, order{Do: orderMemory})
	if err != nil {
		return err
	}
	if err := l.steady(ctx, rate, max(o.Length, closes), &with); err != nil {
		return err
	}
	ended := f.read(ctx, cairn.level())
	if ended != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if ended != nil {
		if err := f.dial(ctx, 0); err != nil {
			return err
		}
		back, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := f.read(back, cairn.level()); err != nil {
			return fmt.Errorf("bench: the client that was frozen came back, and has %d of %d events on the subscription that has the fewest: %w",
				slices.Min(f.last[:]), cairn.level(), err)
		}
	}
	memory := float64(frozen.Bytes-before.Bytes) / (1 << 20)
	waited := float64((cairn.level() - froze) * frozenSubscriptions)
	fmt.Fprintf(o.Progress, "p99 %.2f ms, %.2f beside a frozen client: its memory %.1f MiB, %.0f events waited for it, it read on until: %v; it had %d wrong\n",
		without.p99, with.p99, memory, waited, ended, f.wrong)
	r.p50, r.p50Without = append(r.p50, with.p50), append(r.p50Without, without.p50)
	r.p99, r.p99Without = append(r.p99, with.p99), append(r.p99Without, without.p99)
	r.memory, r.waited, r.wrong = append(r.memory, memory), append(r.waited, waited), append(r.wrong, float64(f.wrong))
	return nil
}
