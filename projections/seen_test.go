package projections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// breaking is a log whose tail breaks off when it is told to, and tells when it begins.
type breaking struct {
	*logtest.Log
	off    chan struct{}
	begins chan struct{}
}

// Tail implements streams.Tailer.
func (b breaking) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	select {
	case b.begins <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-b.off:
			cancel(errBrokeOff)
		case <-ctx.Done():
		}
	}()
	if err := b.Log.Tail(ctx, partition, from, handle); !errors.Is(err, context.Canceled) {
		return err
	}
	return context.Cause(ctx)
}

// breakOff breaks the tail off, and waits until it begins again.
func (b breaking) breakOff(t testing.TB) {
	t.Helper()
	select {
	case <-b.begins:
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case b.off <- struct{}{}:
	case <-ctx.Done():
		t.Fatal("nothing is read")
	}
	select {
	case <-b.begins:
	case <-ctx.Done():
		t.Fatal("reading did not begin again")
	}
}

// TestAPauseThatIsOverBeforeItIsSeenIsOver: a partition that happens to begin again meanwhile leaves the paused model out, and
// nothing differs from one look at the registry to the next.
func TestAPauseThatIsOverBeforeItIsSeenIsOver(t *testing.T) {
	log := breaking{logtest.New(1), make(chan struct{}), make(chan struct{}, 1)}
	pool := pgtest.Read(t)
	chat(log.Log, scope, "thread-a", "one")
	start(t, pool, log, models(pool))
	waitLevel(t, pool, log.Log, models(pool)...)
	for round := range 4 { // a look may fall into the pause
		if err := projections.Pause(t.Context(), pool, "runs", "ann"); err != nil {
			t.Fatal(err)
		}
		log.breakOff(t) // and begins again without it
		if err := projections.Resume(t.Context(), pool, "runs"); err != nil {
			t.Fatal(err)
		}
		chat(log.Log, scope, "thread-a", fmt.Sprint("round", round))
		waitLevel(t, pool, log.Log)
	}
}
