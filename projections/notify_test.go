package projections_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
)

// untabled is one of many read models without tables.
type untabled string

func (c untabled) Name() string { return string(c) }
func (untabled) Revision() int  { return 1 }
func (untabled) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	b.Touch()
	return nil
}

// TestHoweverManyModelsMoveTogether: more than one notice can name go in one transaction all the same, and all are heard of.
func TestHoweverManyModelsMoveTogether(t *testing.T) {
	log := logtest.New(1)
	config := inLanes(t, log, 1)
	var names []string
	for i := range 120 {
		name := fmt.Sprintf("%s_%d", strings.Repeat("x", 58), i)
		config.Projectors, names = append(config.Projectors, untabled(name)), append(names, name)
	}
	together := make(chan int, 100)
	config.Observe = func(a projections.Applied) { together <- len(a.Models) }
	w := listen(t, config.Pool)
	changed := w.Changed(names[len(names)-1])
	last := chat(log, scope, "thread-a", "run")
	run(t, projections.NewEngine(config).Run)
	if n := <-together; n != len(names) {
		t.Errorf("the first transaction moved %d models, wanted %d", n, len(names))
	}
	eventually(t, func() error { return w.Wait(t.Context(), logtest.PositionOf(last), names...) })
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		t.Error("nobody heard that the last one changed")
	}
}
