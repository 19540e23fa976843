package live_test

import (
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// prune deletes the history of a thread as the command does: all but its newest event and that of its title.
func (r *ring) prune(scope domain.Scope, id string) {
	r.t.Helper()
	_, err := r.pool.Exec(r.t.Context(), `WITH head AS (SELECT max(version) AS version FROM events_1 WHERE scope = $1 AND stream = $2), gone AS (
			DELETE FROM events_1 e USING head WHERE e.scope = $1 AND e.stream = $2 AND e.version < head.version AND e.type NOT LIKE '%itled%' RETURNING e.position
		) INSERT INTO event_floors SELECT 1, $1, $2, version, now() FROM head UNION ALL SELECT 1, $1, '', max(position), now() FROM gone`,
		string(scope), "thread-"+id)
	check(r.t, err)
}

// TestARunInAPrunedThreadIsTold: what was deleted from the rows is no hole, in front of the title that was kept and behind it,
// on a socket and for whoever follows. A run that was deleted itself has its end with that, and is not told in part.
func TestARunInAPrunedThreadIsTold(t *testing.T) {
	r := newRing(t, live.Timing{})
	c := r.device("ada", "laptop", nil)
	request := frame{"type": "home_request", "request_id": "r1", "message": "Go"}
	c.send(request)
	run := r.of("ada", "r1")
	run.route("task_agent")
	run.must(thread.Rename{On: thread.On{Thread: run.thread}, Title: thread.Title{Text: "Kept"}})
	run.turn(1, 1, "First.")
	if text, _ := c.end(); text != "First." {
		t.Fatalf("told %q", text)
	}
	_, ended := await(r, func(e thread.RunCompleted) bool { return e.RunID == run.run })
	check(t, r.waiter.Wait(t.Context(), streams.PositionOf(ended), events.Name, "open_effects"))
	r.prune(run.scope, run.thread)

	c.send(frame{"type": "home_request", "request_id": "r2", "session_id": run.thread, "message": "Again"})
	next := r.of("ada", "r2")
	next.thread = run.thread
	next.route("task_agent")
	next.turn(1, 1, "Second.")
	if text, _ := c.end(); text != "Second." {
		t.Fatalf("told %q", text)
	}
	for name, from := range map[string]live.FollowFrom{
		"from the beginning":  {Channel: thread.Home},
		"from its message on": {Posted: ended.Version + 4, Channel: thread.Home},
	} {
		if end := r.endOf(next, from); end.Error != nil || end.Text != "Second." {
			t.Errorf("%s: %+v", name, end)
		}
	}
	// Who was here meanwhile still has it all; who comes later does not.
	r = r.start(live.Timing{})
	c = r.device("ada", "phone", nil)
	if end := r.endOf(run, live.FollowFrom{Posted: 4, Channel: thread.Home}); end.Error == nil || end.Error.Code != live.CodePruned {
		t.Errorf("a run that was deleted ends with %+v", end)
	}
	c.send(request) // a repeat of what was answered long ago
	if _, end := c.end(); end["error"] == nil || end["error"].(map[string]any)["code"] != live.CodePruned {
		t.Errorf("a repeat is told %v", end)
	}
}

func (r *ring) endOf(c *conversation, from live.FollowFrom) live.Output {
	r.t.Helper()
	outputs := r.gateway.Follow(r.t.Context(), c.scope, c.thread, c.run, from)
	late := time.After(15 * time.Second)
	for {
		select {
		case o, ok := <-outputs:
			if !ok {
				r.t.Fatal("it ends without an end")
			}
			if o.Kind == live.OutputEnd {
				return o
			}
		case <-late:
			r.t.Fatal("it has no end")
		}
	}
}
