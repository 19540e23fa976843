package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/streams"
)

// TestEachAnswerGoesWhereItBelongs has two devices of one user, one thread each, send 200 requests at once.
func TestEachAnswerGoesWhereItBelongs(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	models, err := modeltest.Start(func(_ context.Context, r modeltest.Request) modeltest.Reply {
		if len(r.Tools) == 0 {
			return modeltest.Text("note_agent")
		}
		return modeltest.Text("You said: " + r.Last("user"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	p := newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_COMMAND_RATE=1000", "CAIRN_COMMAND_BURST=1000", "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	u := newUser(ctx, t, p)

	const each = 100
	var group sync.WaitGroup
	var mu sync.Mutex
	ends := map[string]int{} // stream_end frames by request id
	threads := [2]string{}
	last := [2]string{} // the greatest position that a device was told
	for n := range 2 {
		d := u.device(func(o *device.Options) {
			o.OnFrame = func(f device.Frame) {
				if f.Type == "stream_end" {
					mu.Lock()
					defer mu.Unlock()
					ends[f.RequestID]++
				}
			}
		})
		first, err := d.Send(device.Request{Message: fmt.Sprintf("device %d, message first", n)}).Wait(ctx)
		if err != nil || first.Err != nil {
			t.Fatal(err, first.Err)
		}
		threads[n] = first.SessionID
		for i := range each - 1 {
			group.Go(func() {
				message := fmt.Sprintf("device %d, message %d", n, i)
				id := fmt.Sprintf("request-%d-%d", n, i)
				got, err := d.Send(device.Request{Message: message, SessionID: first.SessionID, RequestID: id}).Wait(ctx)
				mu.Lock()
				last[n] = later(last[n], got.Position)
				mu.Unlock()
				switch {
				case err != nil || got.Err != nil:
					t.Errorf("%s: %v, %v", id, err, got.Err)
				case got.Text != "You said: "+message:
					t.Errorf("%s got %q", id, got.Text)
				case got.SessionID != first.SessionID:
					t.Errorf("%s was answered in thread %s, not %s", id, got.SessionID, first.SessionID)
				}
			})
		}
	}
	group.Wait()
	mu.Lock()
	defer mu.Unlock()
	for id, n := range ends {
		if n != 1 {
			t.Errorf("request %s ended %d times", id, n)
		}
	}
	if len(ends) != 2*each {
		t.Errorf("%d requests ended, want %d", len(ends), 2*each)
	}
	for n, thread := range threads {
		entries := u.timeline(ctx, thread, last[n])
		if got := count(entries, "run_end"); got != each {
			t.Errorf("thread of device %d has %d run ends, want %d", n, got, each)
		}
	}
}

// later is the later of two positions; they are opaque to clients, and this test is no ordinary client.
func later(a, b string) string {
	x, errA := streams.ParsePosition(a)
	y, errB := streams.ParsePosition(b)
	if errA != nil || errB == nil && y.Position > x.Position {
		return b
	}
	return a
}
