package faults

import (
	"context"
	"sync"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

// moment is a step of a run at which a process dies; arm arranges that reached is called when one comes by.
type moment struct {
	name string
	arm  func(ctx context.Context, r *Ring, reached func()) error
}

// moments are the steps of a run with a tool call. The load makes such runs all the time.
func moments() []moment {
	commands := func(what string) func(context.Context, *Ring, func()) error {
		return func(ctx context.Context, r *Ring, reached func()) error {
			return r.Stage.Watch(ctx, r.Stage.Topics().Commands(), what, reached)
		}
	}
	log := func(what string) func(context.Context, *Ring, func()) error {
		return func(ctx context.Context, r *Ring, reached func()) error {
			return r.Stage.Watch(ctx, r.Stage.Topics().Log(), what, reached)
		}
	}
	return []moment{
		{"its command is in the commands topic", commands("thread.post_message")},
		{"its first commit is in the log", log("thread.message_posted")},
		{"the model is being called", func(_ context.Context, r *Ring, reached func()) error {
			r.Stage.OnModel(func(tools int) {
				if tools > 0 {
					reached()
				}
			})
			return nil
		}},
		{"the tool call is in the log", log("thread.tool_call_requested")},
		{"the device works on it", func(_ context.Context, r *Ring, reached func()) error {
			r.Load.OnDevice(func(device.Call) { reached() }, nil)
			return nil
		}},
		{"its result arrived", commands("thread.record_result")},
		{"its result is in the log", log("thread.tool_call_completed")},
		{"the answer streams", func(_ context.Context, r *Ring, reached func()) error {
			r.Load.OnDevice(nil, func(f device.Frame) {
				if f.Type == "stream_text" {
					reached()
				}
			})
			return nil
		}},
		{"its end is in the log", log("thread.run_completed")},
	}
}

// momentWithin is how long a moment is waited for; then its step is taken without it.
const momentWithin = 20 * time.Second

// at does something at a moment, in the goroutine that sees it come, and returns when it was done.
func (r *Ring) at(ctx context.Context, m moment, do func() error) error {
	watch, cancel := context.WithTimeout(ctx, momentWithin)
	defer cancel()
	var once sync.Once
	var err error
	done := make(chan struct{})
	act := func() {
		once.Do(func() {
			err = do()
			close(done)
		})
	}
	if err := m.arm(watch, r, act); err != nil {
		return err
	}
	defer r.Load.OnDevice(nil, nil)
	defer r.Stage.OnModel(nil)
	select {
	case <-done:
	case <-watch.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Log.Warn("a moment did not come, and its step is taken without it", "moment", m.name)
		act()
	}
	return err
}
