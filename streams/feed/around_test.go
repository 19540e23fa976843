package feed_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// A publisher that begins in the middle of the log waits until what lies before is stored, and publishes nothing that does
// not follow from it.
func TestAPublisherThatBeginsBeforeADefectPublishesNothingOfIt(t *testing.T) {
	t.Parallel()
	p := newPress(t, topics(t), 9)
	p.print(30)
	first := p.publisher(nil)
	stop := run(t, first.Run)
	p.level(first)
	p.print(9) // a batch that does not begin with the log
	p.level(first)
	stop()
	p.check()
	defect := p.commit(p.offset, 7)
	defect.Scope, defect.Events[0].Scope = "user-b", "user-b"
	p.write(defect)
	var known atomic.Bool
	config := func(c *kafka.PublisherConfig) {
		c.Around = func(_ context.Context, _ int32, since int64, scope domain.Scope, _ uint64) (streams.Around, error) {
			switch a := (streams.Around{Next: since, Before: new(int64)}); {
			case !known.Load():
				return streams.Around{Next: since - 1}, nil
			case scope == "user-b":
				return streams.Around{Next: since}, nil
			default:
				return a, nil
			}
		}
	}
	second := p.publisher(config)
	run(t, second.Run)
	says := func(what string) {
		t.Helper()
		eventually(t, "it says "+what, func() bool {
			s := second.Stats()
			return len(s) == 1 && strings.Contains(s[0].Waiting, what)
		})
	}
	says("does not know yet")
	known.Store(true)
	says("not what a writer may write")
	p.check()
}
