package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
)

// held is a counter that stays in its transaction.
type held struct {
	counter
	entered chan<- struct{}
	leave   <-chan struct{}
}

func (h held) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	h.entered <- struct{}{}
	select {
	case <-h.leave:
	case <-ctx.Done():
		return ctx.Err()
	}
	return h.counter.Apply(ctx, tx, b)
}

// second is the counter's next revision.
type second struct{ counter }

func (second) Revision() int { return 2 }

// TestASwapWaitsForWhatIsBeingApplied: else who was told by the generation that was read that it has a position would not find
// it in the one that is read then.
func TestASwapWaitsForWhatIsBeingApplied(t *testing.T) {
	log := logtest.New(1)
	config := inLanes(t, log, 1, counter{})
	pool := config.Pool
	chat(log, scope, "thread-a", "run")
	stop := run(t, projections.NewEngine(config).Run)
	waitLevel(t, pool, log, counter{})
	stop()
	fill := projections.FillConfig{Pool: pool, Tailer: log, Schema: config.Schema, Targets: targets(t, pool, []projections.Projector{second{}})}
	if err := projections.Fill(t.Context(), fill); err != nil {
		t.Fatal(err)
	}

	entered, leave := make(chan struct{}, 1), make(chan struct{})
	config.Projectors = []projections.Projector{held{counter{}, entered, leave}}
	run(t, projections.NewEngine(config).Run)
	log.Append(scope, logtest.Post("thread-a", "next", "laptop")...)
	<-entered
	swapped := make(chan error, 1)
	go func() {
		_, err := projections.Swap(t.Context(), pool, "counter", projections.SwapOptions{Generation: 2, Unverified: true})
		swapped <- err
	}()
	select {
	case err := <-swapped:
		t.Fatalf("while a batch was applied swapping answered %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(leave)
	if err := <-swapped; !errors.Is(err, projections.ErrNotLevel) {
		t.Fatalf("swapping to a generation that lacks that batch answered %v, wanted ErrNotLevel", err)
	}
}
