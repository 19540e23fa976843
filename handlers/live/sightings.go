package live

import (
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain/device"
)

// sightings remembers which devices were recorded as seen lately, so that one that comes and goes is not a command each
// time. It may forget: the decider knows.
type sightings struct {
	mu   sync.Mutex
	last map[deviceKey]time.Time
}

// remembered bounds it.
const remembered = 1 << 16

func (t *sightings) due(key deviceKey, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.last[key]
	return !ok || now.Sub(last) >= device.SeenEvery || now.Before(last)
}

func (t *sightings) note(key deviceKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || len(t.last) >= remembered {
		t.last = map[deviceKey]time.Time{}
	}
	t.last[key] = now
}
