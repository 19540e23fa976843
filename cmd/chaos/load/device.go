package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// deviceUser is a person at a device: one request after another, each of which makes a row in the device's database.
type deviceUser struct {
	*user
	name   string
	store  *device.Store
	device *device.Device
	n      int

	mu   sync.Mutex
	ends map[string]end // of the titles that were asked for
}

// end is how a run ended.
type end struct {
	err  error
	rows int // that it says it made
}

func (l *Load) newDevice(ctx context.Context, u *user, path, name string) (*deviceUser, error) {
	store, err := device.OpenStore(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	d := &deviceUser{user: u, name: name, store: store, ends: map[string]end{}}
	d.device, err = device.New(device.Options{
		URL: l.urls.Gate, Token: d.fresh, DeviceID: "of-" + strings.TrimPrefix(string(u.scope), "user-"), Name: name, Timezone: "Europe/Rome", Store: store,
		MinBackoff: 50 * time.Millisecond, MaxBackoff: 500 * time.Millisecond,
		OnCall: d.called, OnDone: Done(l.history, u.scope), OnFrame: d.framed,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return d, nil
}

// fresh is a token for a handshake.
func (d *deviceUser) fresh(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	return d.token(ctx)
}

func (d *deviceUser) called(c device.Call) {
	d.load.mu.Lock()
	hook := d.load.onCall
	d.load.mu.Unlock()
	if hook != nil {
		hook(c)
	}
}

func (d *deviceUser) framed(f device.Frame) {
	d.load.mu.Lock()
	hook := d.load.onFrame
	d.load.mu.Unlock()
	if hook != nil {
		hook(f)
	}
}

// run asks until ctx ends; what was asked then is settled within hard.
func (d *deviceUser) run(ctx, hard context.Context) {
	base, off := context.WithCancel(context.WithoutCancel(ctx))
	var connected sync.WaitGroup
	connected.Go(func() {
		for base.Err() == nil {
			err := d.device.Run(base)
			if base.Err() != nil {
				return
			}
			if errors.Is(err, device.ErrUnauthorized) {
				d.enter(base)
			} else {
				d.load.note(fmt.Sprintf("a device gave up: %v", err))
			}
			wait(base, time.Second)
		}
	})
	for ctx.Err() == nil {
		d.n++
		d.ask(hard)
		wait(ctx, 4*d.load.pace)
	}
	off()
	connected.Wait()
}

// ask asks for a row, again and again under one id, until the run has ended.
func (d *deviceUser) ask(ctx context.Context) {
	id, title := fmt.Sprintf("%s-%d", d.name, d.n), fmt.Sprintf("Task%d", d.n)
	request := device.Request{Message: "Create a task called " + title + ", low priority", RequestID: id}
	began := time.Now()
	d.mu.Lock()
	d.ends[title] = end{err: errOpen}
	d.mu.Unlock()
	for ctx.Err() == nil {
		op := d.load.history.Invoke(d.name, history.Request{
			Scope: d.scope, CommandID: streams.CommandID(d.scope, id), Fingerprint: request.Message, What: "a request on a socket",
		})
		s := d.device.Send(request)
		if last, told := d.follow(ctx, s, op, began); told {
			d.mu.Lock()
			d.ends[title] = last
			d.mu.Unlock()
			return
		}
		wait(ctx, 200*time.Millisecond)
	}
	d.load.undecided(command{method: "socket", path: title, key: id})
}

// errOpen is how a run ended whose end was not told.
var errOpen = errors.New("its end was never told")

// follow follows a request; told says that it has come to its end.
func (d *deviceUser) follow(ctx context.Context, s *device.Stream, op *history.Op, began time.Time) (last end, told bool) {
	decided := false
	for {
		f, ok, err := s.Next(ctx)
		if err != nil || !ok {
			if !decided {
				op.Unknown(err)
			}
			return end{err: err}, false
		}
		switch f.Type {
		case "stream_start":
			if !decided {
				decided = true
				id := streams.CommandID(d.scope, s.Request.RequestID)
				op.Accepted(streams.Answer{CommandID: id})
				d.load.decided(streams.CommandKey{Scope: d.scope, ID: id}, began)
			}
		case "stream_end":
			r, err := s.Wait(ctx)
			if err != nil {
				return end{err: err}, false
			}
			return end{err: r.Err, rows: len(r.Mutations)}, true
		case "error":
			return d.refused(op, f, decided)
		}
	}
}

// refused says what an error frame means.
func (d *deviceUser) refused(op *history.Op, f device.Frame, decided bool) (last end, told bool) {
	why := &device.RequestError{Code: f.Code, Message: f.Message}
	if decided {
		return end{err: why}, false
	}
	switch f.Code {
	case "busy", "queue_full", "not_found", "id_reused", "scope_erased":
		op.Rejected(&domain.Rejection{Code: f.Code})
		return end{err: why}, true
	case "rate_limited":
		op.Refused(why)
	default:
		op.Unknown(why)
	}
	return end{err: why}, false
}

// Rows holds what the devices have against what was asked: a run that says it made a row made it once, none made it twice,
// and no row came from nowhere. It answers what is wrong.
func (l *Load) Rows(ctx context.Context) (wrong []string, err error) {
	for _, d := range l.devices {
		rows, err := d.store.Rows(ctx, "tasks")
		if err != nil {
			return nil, err
		}
		times := map[string]int{}
		for _, r := range rows {
			title, _ := r["title"].(string)
			times[title]++
		}
		d.mu.Lock()
		for title, last := range d.ends {
			n := times[title]
			delete(times, title)
			if n > 1 || last.rows > 1 || n < last.rows {
				wrong = append(wrong, fmt.Sprintf("%s has %d rows %q, whose run says it made %d (%v)", d.name, n, title, last.rows, last.err))
			}
			switch {
			case last.err != nil:
				l.note(fmt.Sprintf("a run with a device ended with: %v", last.err))
			case last.rows == 0:
				l.note("a run told its person that its tool call had failed")
			}
		}
		d.mu.Unlock()
		for title, n := range times {
			wrong = append(wrong, fmt.Sprintf("%s has %d rows %q that nobody asked for", d.name, n, title))
		}
	}
	return wrong, nil
}

// Reconnect has every device leave its socket and take another, as one that comes into another network does.
func (l *Load) Reconnect() {
	for _, d := range l.devices {
		d.device.Cut()
	}
}
