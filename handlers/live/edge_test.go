package live_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

// beside is another gateway on the ring, with something of its own.
func (r *ring) beside(t *testing.T, change func(*live.Config)) *ring {
	t.Helper()
	config := live.Config{
		Asker: r.asker, Fanout: r.fanout(), Keys: r.keys, Schema: r.schema, Events: r.events,
		Effects: openeffects.New(projections.NewDB(r.pool)), Requests: requests.New(projections.NewDB(r.pool)), Work: work.New(r.pool), Waiter: r.waiter, Accounts: tokens{},
		Version: "test", Timing: live.Timing{Sweep: 200 * time.Millisecond}, Log: slog.New(slog.DiscardHandler),
	}
	change(&config)
	other := r.in(t)
	other.gateway = live.New(config)
	stop := other.background(other.gateway.Run)
	server := httptest.NewServer(other.gateway.Handler())
	other.server = server
	other.stop = func() { stop(); server.Close() }
	t.Cleanup(other.stop)
	return other
}

// stubborn refuses the first message, after it was let go.
type stubborn struct {
	streams.Asker
	asked, again chan struct{}
	once         sync.Once
}

func (s *stubborn) Ask(ctx context.Context, c streams.Command) (answer streams.Answer, err error) {
	if _, ok := c.Body.(thread.PostMessage); ok {
		s.once.Do(func() {
			close(s.asked)
			<-s.again
			err = &streams.Busy{Reason: "not now", RetryAfter: time.Second}
		})
	}
	if err != nil {
		return answer, err
	}
	return s.Asker.Ask(ctx, c)
}

// slowly says that a device is online only when its socket is gone.
type slowly struct {
	live.Work
	asked chan struct{}
	once  sync.Once
}

func (s *slowly) Online(ctx context.Context, scope domain.Scope, device, gateway, socket string, journal bool) error {
	s.once.Do(func() {
		close(s.asked)
		<-ctx.Done()
	})
	return s.Work.Online(context.WithoutCancel(ctx), scope, device, gateway, socket, journal)
}

// expiring lets in until it is told that every token has run out.
type expiring struct {
	tokens
	over atomic.Bool
}

func (e *expiring) Verify(token string) (accounts.Principal, error) {
	if e.over.Load() {
		return accounts.Principal{}, accounts.ErrToken
	}
	return e.tokens.Verify(token)
}

func TestEdges(t *testing.T) {
	r := newRing(t, live.Timing{})
	t.Run("a token may run out while its socket is open, and opens no other", func(t *testing.T) {
		verifier := &expiring{}
		r := r.beside(t, func(c *live.Config) { c.Accounts = verifier })
		c := r.device("patient", "laptop", nil)
		verifier.over.Store(true)
		c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
		c.expect("stream_start")
		c.send(frame{"type": "cancel", "request_id": "r1"})
		c.end()
		_, answer, err := r.open("", http.Header{"Authorization": {"Bearer token-patient"}})
		if err == nil || answer == nil || answer.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a second socket: %v", answer)
		}
	})
	t.Run("a cancel that came too early does not stand in the way of a later one", func(t *testing.T) {
		asker := &stubborn{asked: make(chan struct{}), again: make(chan struct{})}
		r := r.beside(t, func(c *live.Config) { asker.Asker, c.Asker = c.Asker, asker })
		c := r.device("early", "laptop", nil)
		c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
		<-asker.asked
		c.send(frame{"type": "cancel", "request_id": "r1"})
		c.alive()
		close(asker.again)
		c.refused("rate_limited")
		c.refused("not_found")
		c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
		c.expect("stream_start")
		c.send(frame{"type": "cancel", "request_id": "r1"})
		if _, end := c.end(); end["error"] == nil {
			t.Fatalf("it goes on: %v", end)
		}
	})
	t.Run("a socket that died while it arrived is gone", func(t *testing.T) {
		slow := &slowly{asked: make(chan struct{})}
		r := r.beside(t, func(c *live.Config) { slow.Work, c.Work = c.Work, slow })
		c := r.dial("ghost")
		c.send(frame{"type": "device_hello", "device_id": "laptop", "agent_ids": []string{}, "protocol": 3})
		c.expect("hello")
		<-slow.asked
		check(t, c.ws.Close())
		for deadline := time.Now().Add(10 * time.Second); ; {
			found, err := slow.Presence(t.Context(), domain.User("ghost"))
			check(t, err)
			if len(found) == 1 && !found[0].Online {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the device is still there: %+v", found)
			}
		}
	})
	t.Run("too many wishes of any kind are refused", func(t *testing.T) {
		var left atomic.Int32
		left.Store(3)
		r := r.beside(t, func(c *live.Config) {
			c.Admit = func(domain.Scope) error {
				if left.Add(-1) < 0 {
					return &streams.Busy{Reason: "too many requests", RetryAfter: time.Second}
				}
				return nil
			}
		})
		hello := frame{"type": "device_hello", "device_id": "laptop", "agent_ids": []string{}, "protocol": 3}
		c := r.device("hasty", "laptop", nil) // the first is free
		for n := range 3 {
			hello["name"] = fmt.Sprint("name ", n)
			c.send(hello)
			c.expect("hello")
		}
		hello["name"] = "name 3"
		c.send(hello)
		c.refused("rate_limited")
		c.send(frame{"type": "cancel", "request_id": "r1"})
		c.refused("rate_limited")
		c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
		c.refused("rate_limited")
		c.alive()
	})
	t.Run("the last hello is the one that is remembered", func(t *testing.T) {
		r := r.in(t)
		c := r.device("changing", "laptop", nil)
		zones := []string{"Asia/Tokyo", "Europe/Paris", "America/Lima", "Africa/Cairo"}
		for n := range 40 {
			c.send(frame{"type": "device_hello", "device_id": "laptop", "agent_ids": []string{}, "protocol": 3, "timezone": zones[n%len(zones)]})
		}
		c.send(frame{"type": "device_hello", "device_id": "laptop", "agent_ids": []string{}, "protocol": 3, "timezone": "Pacific/Apia"})
		for range 41 {
			c.expect("hello")
		}
		_, at := await(r, func(e device.Introduced) bool { return e.Timezone == "Pacific/Apia" })
		c.alive()
		rows, err := r.events.After(t.Context(), streams.StreamKey{Scope: at.Scope, Stream: at.Stream}, at.Version, 10)
		check(t, err)
		if len(rows) != 0 {
			t.Fatalf("%d hellos became known after the last one", len(rows))
		}
	})
	t.Run("the scheme of a token may be written in any case", func(t *testing.T) {
		for _, scheme := range []string{"bearer", "BEARER"} {
			_, _, err := r.in(t).open("", http.Header{"Authorization": {scheme + " token-ada"}})
			check(t, err)
		}
	})
}

// here waits until a device of the user is known to be online.
func (r *ring) here(user string) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		found, err := work.New(r.pool).Presence(r.t.Context(), domain.User(user))
		check(r.t, err)
		if len(found) > 0 && found[0].Online {
			return
		}
	}
	r.t.Fatal("no device came online")
}
