package live_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

// TestNothingIsLostWhilePostgresComesAndGoes: every connection is cut again and again while runs ask the
// device; each call goes out, each answer is recorded once, each request ends once.
func TestNothingIsLostWhilePostgresComesAndGoes(t *testing.T) {
	r := newRing(t, live.Timing{})
	r.background(func(ctx context.Context) error {
		ticker := time.NewTicker(150 * time.Millisecond)
		defer ticker.Stop()
		for range 12 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
			// It cuts its own connection as well, so that an error is what it should answer.
			_, _ = r.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()`)
		}
		return nil
	})
	c := r.device("ada", "laptop", frame{"journal": true})
	const requests = 8
	runs := map[string]*conversation{}
	for i := range requests {
		id := fmt.Sprint("r", i)
		c.send(frame{"type": "home_request", "request_id": id, "message": "Do it"})
		runs[id] = r.of("ada", id)
	}
	for _, run := range runs {
		run.route("task_agent")
		run.turn(1, 1, "", insertTask(), selectTasks())
	}
	ends, acks := map[string]int{}, map[string]bool{}
	for len(acks) < 2*requests {
		f := c.next()
		switch f.text("type") {
		case "tool_call":
			answer := frame{"type": "tool_result", "id": f.text("id"), "rows": []any{}}
			if f.text("action") == "insert" {
				answer = frame{"type": "tool_result", "id": f.text("id"), "row": frame{"id": "t" + f.text("id")}}
			}
			c.send(answer)
		case "tool_result_ack":
			acks[f.text("id")] = true
		}
	}
	for _, run := range runs {
		run.turn(2, 1, "Done.")
	}
	for len(ends) < requests {
		if f := c.next(); f.text("type") == "stream_end" {
			ends[f.text("request_id")]++
		}
	}
	for id, run := range runs {
		done := count(r, func(e thread.ToolCallCompleted) bool { return e.RunID == run.run })
		if ends[id] != 1 || done != 2 {
			t.Errorf("%s ended %d times with %d results", id, ends[id], done)
		}
	}
}

// TestAnErasedAccountIsPutOut: a socket lives until access is revoked.
func TestAnErasedAccountIsPutOut(t *testing.T) {
	r := newRing(t, live.Timing{})
	c, other := r.device("ada", "laptop", nil), r.device("bob", "laptop", nil)
	r.erase("ada")
	c.gone(1008)
	other.alive()
}

func (r *ring) erase(user string) {
	of := r.of(user, "")
	of.must(account.Register{On: account.On{Account: user}})
	of.must(account.Erase{On: account.On{Account: user}})
}
