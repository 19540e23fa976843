package projections_test

import (
	"fmt"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// BenchmarkFromLogToWakeUp is the time from a commit in the log to the wake-up of a worker of open effects,
// with all models.
func BenchmarkFromLogToWakeUp(b *testing.B) {
	log := logtest.New(1)
	pool := pgtest.Read(b)
	start(b, pool, log, models(pool))
	w := listen(b, pool)
	p := logtest.PositionOf(chat(log, scope, "thread-a", "first"))
	for w.Wait(b.Context(), p, tables...) != nil {
		continue
	}
	i := 0
	for b.Loop() {
		changed := w.Changed("open_effects")
		log.Append(scope, logtest.Post("thread-a", fmt.Sprint("run", i), "laptop")...)
		<-changed
		i++
	}
}

// BenchmarkWaitForPosition is a write and the wait until a reader may see it.
func BenchmarkWaitForPosition(b *testing.B) {
	log := logtest.New(1)
	pool := pgtest.Read(b)
	start(b, pool, log, models(pool))
	w := listen(b, pool)
	i := 0
	for b.Loop() {
		p := logtest.PositionOf(chat(log, scope, "thread-a", fmt.Sprint("run", i)))
		if err := w.Wait(b.Context(), p, "events", "threads", "runs"); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkReplay is the projectors at work on a log that is there: events a second, all models.
func BenchmarkReplay(b *testing.B) {
	log := logtest.New(1)
	log.MaxBatch = 1000
	for i := range 2000 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%50)), domain.Stream(fmt.Sprintf("thread-%d", i%10)), fmt.Sprint("run", i))
	}
	events := 0
	for _, c := range log.Commits(0) {
		events += len(c.Events)
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		pool := pgtest.Read(b)
		w := projections.NewWaiter(pool)
		b.StartTimer()
		stop := start(b, pool, log, models(pool))
		commits := log.Commits(0)
		for w.Wait(b.Context(), logtest.PositionOf(commits[len(commits)-1]), tables...) != nil {
			continue
		}
		stop()
		n += events
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
