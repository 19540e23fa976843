package fanout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
)

// loggedOut says that one session has ended, once it has.
type loggedOut struct {
	session string
	over    atomic.Bool
}

func (l *loggedOut) Ended(_ context.Context, sessions []string) (ended []string, err error) {
	for _, session := range sessions {
		if session == l.session && l.over.Load() {
			ended = append(ended, session)
		}
	}
	return ended, nil
}

// socket holds something for a session.
type socket struct {
	who    accounts.Principal
	closed atomic.Bool
}

func (s *socket) Principals() []accounts.Principal { return []accounts.Principal{s.who} }

func (s *socket) Revoke(pick func(accounts.Principal) bool) {
	if pick(s.who) {
		s.closed.Store(true)
	}
}

// TestASessionThatEndedFollowsNothingAnyMore, and what was opened for it is closed; another session of the same person goes on.
func TestASessionThatEndedFollowsNothingAnyMore(t *testing.T) {
	t.Parallel()
	sessions := &loggedOut{session: "laptop"}
	s := newStage(t, 1, func(c *fanout.Config) { c.Sessions, c.Look = sessions, 5*time.Millisecond })
	laptop, phone := accounts.Principal{Scope: user(1), Session: "laptop"}, accounts.Principal{Scope: user(1), Session: "phone"}
	here, other := &socket{who: laptop}, &socket{who: phone}
	s.hub.Join(here)
	s.hub.Join(other)
	ended, goesOn := s.subscribe(fanout.Want{Who: laptop, Scope: user(1)}), s.subscribe(fanout.Want{Who: phone, Scope: user(1)})
	sessions.over.Store(true)
	ended.until(t, 1, func() bool { return ended.end != nil })
	wait(t, here.closed.Load)
	s.append(user(1), opened("thread-a"))
	goesOn.until(t, 1, func() bool { return goesOn.at == 1 })
	if ended.end.Reason != fanout.NoAccess || len(ended.got) > 0 || other.closed.Load() {
		t.Errorf("ended %+v with %d events", ended.end, len(ended.got))
	}
}
