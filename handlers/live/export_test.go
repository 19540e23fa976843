package live

import (
	"net"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// Story is a story under test.
type Story struct{ story *story }

func NewStory(run string, channel thread.Channel) Story { return Story{newStory(run, channel)} }

func (s Story) Begin() []Output { return s.story.begin() }

func (s Story) Committed(version uint64, event any) []Output {
	return s.story.committed(version, event)
}

func (s Story) Provisional(f streams.LiveFrame) []Output { return s.story.provisional(f) }

// Guarded is the reading side of a socket under test.
func Guarded(under net.Conn, limit int64, oversized func(int64)) (net.Conn, func() bool) {
	c := &conn{Conn: under, guard: guard{limit: limit, oversized: oversized}}
	return c, c.guard.whole
}
