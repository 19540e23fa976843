package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

var errRefused = errors.New("the handshake was refused")

// session is one socket's life.
func (f *Follower) session(ctx context.Context) error {
	s, err := f.dial(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	stop := context.AfterFunc(ctx, s.bye)
	defer stop()
	f.connects.Add(1)
	f.connected(s)
	defer f.disconnected()
	var told *announced
	for {
		raw, err := s.read(f.o.Silence)
		if err != nil {
			if told != nil {
				told.error = err
				return told
			}
			return err
		}
		var in frame
		if err := json.Unmarshal(raw, &in); err != nil {
			return fmt.Errorf("follow: a frame that can't be read: %w", err)
		}
		if in.Kind == "reconnect" {
			told = &announced{after: time.Duration(in.AfterMS) * time.Millisecond}
			continue
		}
		if err := f.handle(s, &in); err != nil {
			return err
		}
	}
}

func (f *Follower) dial(ctx context.Context) (*socket, error) {
	token, err := f.o.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("follow: token: %w", err)
	}
	u, err := url.Parse(f.o.URL)
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	u.Scheme = map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}[u.Scheme]
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v1/ws/device"
	conn, response, err := f.o.Dialer.DialContext(ctx, u.String(), http.Header{"Authorization": {"Bearer " + token}}) //nolint:bodyclose // the dialer has closed the connection; the body is a copy
	if err != nil {
		if response != nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
			return nil, fmt.Errorf("follow: %w: %s", errRefused, response.Status)
		}
		return nil, fmt.Errorf("follow: connect: %w", err)
	}
	return newSocket(conn), nil
}

// connected introduces the client and asks for every subscription, in one go with those that are begun meanwhile.
func (f *Follower) connected(s *socket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.socket = s
	s.queue(map[string]any{
		"type": "device_hello", "device_id": f.o.DeviceID, "agent_ids": []string{}, "protocol": 3, "batch": f.o.Framing == Batched,
	})
	for _, one := range f.subscriptions {
		s.queue(one.subscribe())
	}
}

func (f *Follower) disconnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.socket = nil
}

// handle takes a frame.
func (f *Follower) handle(s *socket, in *frame) error {
	switch in.Kind {
	case "subscribed":
		if one := f.of(in.ID); one != nil {
			one.begin(in.Head)
		}
	case "event":
		return f.events(s, in.Subscription, []Event{in.event()}, 0)
	case "events":
		return f.events(s, in.Subscription, in.Events, in.Cursor)
	case "live":
		if one := f.of(in.Subscription); one != nil && one.want.OnLive != nil {
			one.want.OnLive(in.live())
		}
	case "reset":
		return f.reset(s, in)
	case "error":
		return f.refused(s, in)
	}
	return nil
}

// events hands events on. Where some are missing the subscription is asked for again, from where it is.
func (f *Follower) events(s *socket, name string, events []Event, cursor uint64) error {
	one := f.of(name)
	if one == nil {
		return nil // of one that has ended
	}
	for _, e := range events {
		whole, err := one.take(e)
		if err != nil {
			return &final{err}
		}
		if !whole {
			f.again(s, one)
			return nil
		}
	}
	if !one.over(cursor) {
		f.again(s, one)
	}
	return nil
}

// again ends a subscription on the wire and asks for it under another name.
func (f *Follower) again(s *socket, one *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscriptions[one.want.ID] != one {
		return
	}
	s.queue(map[string]any{"type": "unsubscribe", "id": one.name()})
	s.queue(one.subscribe())
}

func (f *Follower) reset(s *socket, in *frame) error {
	one := f.of(in.Subscription)
	if one == nil {
		return nil
	}
	r := Reset{Subscription: one.want.ID, Reason: in.Reason, Head: Place{in.Head, in.HeadHash}}
	if err := one.restart(r); err != nil {
		return &final{err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscriptions[one.want.ID] == one {
		s.queue(one.subscribe())
	}
	return nil
}

// refused takes an error frame. What waiting mends is asked for again.
func (f *Follower) refused(s *socket, in *frame) error {
	one := f.of(in.ID)
	if one == nil {
		f.o.Log.Warn("the backend refused something", "code", in.Code, "message", in.Message)
		if in.ID == "" && (in.Code == "rate_limited" || in.Code == "unavailable") {
			return fmt.Errorf("follow: the backend is busy: %s", in.Message) // the introduction; another socket is introduced again
		}
		return nil
	}
	switch in.Code {
	case "busy", "rate_limited", "unavailable", "internal":
		s.later(time.Duration(max(1, in.RetryAfter))*time.Second, func() { f.again(s, one) })
		return nil
	}
	return &final{&Refusal{one.want.ID, in.Code, in.Message}}
}

// maxFrame is what the backend sends at most, and a little more.
const maxFrame = 16 << 20
