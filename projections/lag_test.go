package projections_test

import (
	"testing"
	"time"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// TestLagIsToldInOffsetsAndInTime: of who is level it is nothing; of who is behind, since it was level, or as long as samples reach.
func TestLagIsToldInOffsetsAndInTime(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	chat(log, scope, "thread-a", "r")
	stop := start(t, pool, log, models(pool))
	wait(t, pool, log)
	stop()
	of := func(name string) projections.Lag {
		t.Helper()
		lags, err := projections.Lags(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lags {
			if l.Projection == name && l.Live {
				return l
			}
		}
		t.Fatal("no lag of", name)
		return projections.Lag{}
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`TRUNCATE log_ends`)
	if l := of("threads"); l.Offsets != 0 || l.Seconds != 0 {
		t.Errorf("without samples: %+v", l)
	}
	exec(`INSERT INTO log_ends (partition, sampled_at, end_offset) VALUES (0, cairn_now() - interval '20 seconds', 3), (0, cairn_now() - interval '10 seconds', 7), (0, cairn_now(), 9)`)
	if l := of("threads"); l.Offsets != 6 || l.Behind() < 19*time.Second || l.Behind() > 30*time.Second {
		t.Errorf("six behind for twenty seconds: %+v", l)
	}
	exec(`UPDATE projection_checkpoints SET next_offset = 9 WHERE projection = 'threads'`)
	if l := of("threads"); l.Offsets != 0 || l.Seconds != 0 || l.Stopped || l.Paused {
		t.Errorf("level: %+v", l)
	}
	exec(`UPDATE projection_checkpoints SET next_offset = 1, updated_at = cairn_now() - interval '5 minutes', stopped_at = now() WHERE projection = 'threads'`)
	exec(`UPDATE projections SET paused_at = now() WHERE name = 'threads'`)
	if l := of("threads"); l.Offsets != 8 || l.Behind() < 5*time.Minute || !l.Stopped || !l.Paused {
		t.Errorf("longer behind than samples are kept: %+v", l)
	}
}
