package projections_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// gathered are the values of a metric, by its labels that are asked for.
func gathered(t *testing.T, from prometheus.Gatherer, metric string, labels ...string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			key := ""
			for _, name := range labels {
				for _, l := range m.GetLabel() {
					if l.GetName() == name {
						key += l.GetValue() + " "
					}
				}
			}
			found[key] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return found
}

// TestWhatIsMeasuredOfReadModelsIsSo: how far they are behind, which has stopped and which is paused, and what was applied.
func TestWhatIsMeasuredOfReadModelsIsSo(t *testing.T) {
	log, pool, registry := logtest.New(1), pgtest.Read(t), prometheus.NewRegistry()
	registry.MustRegister(projections.NewCollector(pool))
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: log, Schema: logtest.Schema(), Projectors: models(pool), Observe: projections.Measure(registry),
	})
	stop := run(t, engine.Run)
	for range 10 {
		log.Append(scope, logtest.On("thread-a", thread.Titled{})...)
	}
	logtest.Wait(t, pool, log)
	value := func(metric, projection string) float64 {
		return gathered(t, registry, metric, "projection")[projection+" "]
	}
	logtest.Eventually(t, "threads is level", func() bool {
		return value("cairn_projection_offset", "threads") == 10 && value("cairn_projection_lag_commits", "threads") == 0
	})
	logtest.Eventually(t, "all events were measured", func() bool { return value("cairn_projector_events_total", "threads") == 10 })
	if n := gathered(t, registry, "cairn_projector_transaction_seconds")[""]; n < 1 || n > 10*2 {
		t.Errorf("%v transactions were measured for 10 commits", n)
	}

	if err := projections.Pause(t.Context(), pool, "threads", "a test"); err != nil {
		t.Fatal(err)
	}
	logtest.Eventually(t, "threads alone is paused", func() bool {
		return value("cairn_projection_paused", "threads") == 1 && value("cairn_projection_paused", "events") == 0
	})
	if err := projections.Resume(t.Context(), pool, "threads"); err != nil {
		t.Fatal(err)
	}
	stop()
	// What follows is as the database has it after an engine stopped at an event, and the log went on.
	for _, sql := range []string{
		`UPDATE projection_checkpoints SET stopped_at = cairn_now(), stopped_offset = 10, stopped_event = 'e', stopped_reason = 'r' WHERE projection = 'threads'`,
		`INSERT INTO log_ends (partition, sampled_at, end_offset) VALUES (0, cairn_now() + interval '1 second', 17)`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if value("cairn_projection_stopped", "threads") != 1 || value("cairn_projection_stopped", "events") != 0 {
		t.Error("another read model is told to have stopped, or none")
	}
	if behind := value("cairn_projection_lag_commits", "threads"); behind != 7 {
		t.Errorf("threads is told to be %v behind, and is 7", behind)
	}
	if up := gathered(t, registry, "cairn_read_models_up")[""]; up != 1 {
		t.Errorf("the database is told to be away: %v", up)
	}
	pool.Close()
	began := time.Now()
	if up, told := gathered(t, registry, "cairn_read_models_up"), gathered(t, registry, "cairn_projection_stopped"); up[""] != 0 || len(up) != 1 || len(told) > 0 {
		t.Errorf("without its database it tells %v and %v", up, told)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a scrape without a database takes %v", took)
	}
}
