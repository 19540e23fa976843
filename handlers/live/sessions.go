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
	open    map[*session]struct{}
	devices map[deviceKey]*session
}

// deviceKey is a device of a user.
type deviceKey struct {
	scope  domain.Scope
	device string
}

func newSessions() *sessions {
	return &sessions{open: map[*session]struct{}{}, devices: map[deviceKey]*session{}}
}

func (t *sessions) add(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.open[s] = struct{}{}
	return true
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, s)
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
	for s := range t.open {
		if s.scope == scope {
			found = append(found, s)
		}
	}
	return found
}
