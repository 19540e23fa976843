package live

import (
	"maps"
	"slices"
	"sync"

	"github.com/cairnhq/cairn/domain"
)

// sessions are the sockets here, and of every device its newest one.
type sessions struct {
	mu      sync.Mutex
	closed  bool
	opened  int // ever
	open    map[*session]struct{}
	scopes  map[domain.Scope]*session // the first of a user's, linked by next
	devices map[deviceKey]*session
}

// deviceKey is a device of a user.
type deviceKey struct {
	scope  domain.Scope
	device string
}

func newSessions() *sessions {
	return &sessions{open: map[*session]struct{}{}, scopes: map[domain.Scope]*session{}, devices: map[deviceKey]*session{}}
}

func (t *sessions) add(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.open[s] = struct{}{}
	s.slot = t.opened % pingSlots
	t.opened++
	if s.next = t.scopes[s.scope]; s.next != nil {
		s.next.before = s
	}
	t.scopes[s.scope] = s
	return true
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, s)
	if s.next != nil {
		s.next.before = s.before
	}
	switch {
	case s.before != nil:
		s.before.next = s.next
	case s.next != nil:
		t.scopes[s.scope] = s.next
	default:
		delete(t.scopes, s.scope)
	}
	s.before, s.next = nil, nil
}

// close lets no socket in any more and answers those that are here.
func (t *sessions) close() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Collect(maps.Keys(t.open))
}

// arrive makes s the newest socket of its device and answers the one that was.
func (t *sessions) arrive(key deviceKey, s *session) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	older := t.devices[key]
	t.devices[key] = s
	if older == s {
		return nil
	}
	return older
}

// depart forgets s, and says whether it was the newest socket of its device.
func (t *sessions) depart(key deviceKey, s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.devices[key] != s {
		return false
	}
	delete(t.devices, key)
	return true
}

// of is the newest socket of a device, nil if none is here.
func (t *sessions) of(key deviceKey) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.devices[key]
}

// here are the devices whose newest socket is here and may have its calls.
func (t *sessions) here() []deviceKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]deviceKey, 0, len(t.devices))
	for key, s := range t.devices {
		if s.ready.Load() {
			keys = append(keys, key)
		}
	}
	return keys
}

// ofScope are the sockets of a user.
func (t *sessions) ofScope(scope domain.Scope) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*session
	for s := t.scopes[scope]; s != nil; s = s.next {
		found = append(found, s)
	}
	return found
}

// all are the sockets that are here.
func (t *sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.open))
}

// inSlot are those that are pinged together.
func (t *sessions) inSlot(slot int) (found []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.open {
		if s.slot == slot {
			found = append(found, s)
		}
	}
	return found
}
