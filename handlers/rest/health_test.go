package rest_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/handlers/rest"
)

// TestWhoeverAsksForReadinessCostsNothing: many who ask at once have one look together, and the next look is a new one.
func TestWhoeverAsksForReadinessCostsNothing(t *testing.T) {
	t.Parallel()
	var looks, later atomic.Int64
	start := time.Now()
	r := newRing(t, func(c *rest.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
		c.Readiness = func(context.Context) []rest.Check {
			if looks.Add(1) == 1 {
				return []rest.Check{{Name: "database", Err: context.DeadlineExceeded}}
			}
			return []rest.Check{{Name: "database"}}
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				if got := r.nobody().get("/readyz?verbose"); got.status != http.StatusServiceUnavailable {
					t.Errorf("it is %d", got.status)
				}
			}
		})
	}
	all.Wait()
	if n := looks.Load(); n != 1 {
		t.Errorf("100 who ask at once cost %d looks", n)
	}
	later.Store(int64(time.Second))
	r.nobody().get("/readyz?verbose").want(http.StatusOK)
	if n := looks.Load(); n != 2 {
		t.Errorf("a second later there were %d looks", n)
	}
}
