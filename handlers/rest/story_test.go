package rest_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/streams"
)

// screen is what a client shows of a run's answer.
type screen struct {
	text     string
	blocks   []any
	started  int
	position any
	ended    bool
}

// take does what docs/rest.md says of an event.
func (s *screen) take(h heard) error {
	switch {
	case h.comment:
	case h.name == "stream_start":
		s.started++
	case h.name == "stream_text":
		s.text += h.data["chunk"].(string)
	case h.name == "stream_block" && h.data["block_type"] == "retry":
		keep := h.data["data"].(map[string]any)["keep"].(map[string]any)
		text, blocks := int(keep["text"].(float64)), int(keep["blocks"].(float64))
		if text > len(s.text) || blocks > len(s.blocks) {
			return fmt.Errorf("it shall keep %d bytes and %d blocks, and has %d and %d", text, blocks, len(s.text), len(s.blocks))
		}
		s.text, s.blocks = s.text[:text], s.blocks[:blocks]
	case h.name == "stream_block":
		s.blocks = append(s.blocks, []any{h.data["block_type"], h.data["data"]})
	case h.name == "stream_end":
		s.ended, s.position = true, h.data["position"]
	default:
		return fmt.Errorf("%q came", h.name)
	}
	return nil
}

// However often the stream of a run is lost, and wherever, the listener has in the end what one has who was never away;
// whether the run goes on or has long ended.
func TestARunsStoryThatIsLostGoesOn(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.ChatWait = time.Millisecond })
	ann := r.user("ann")
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	thread := r.thread(ann, "Plans").text("id")
	for i, message := range []string{"Create a task called Buy milk, high priority", "How many todo tasks do I have?", "Show a table of my tasks"} {
		asked := ann.post("/api/v1/chat", map[string]any{"message": message, "session_id": thread})
		run := "/api/v1/runs/" + asked.text("run_id")
		path := run + "/events?min_position=" + asked.header.Get("Position")
		var shown screen
		last, cuts := "", 0
		for !shown.ended {
			var headers []header
			if last != "" {
				headers = append(headers, header{"Last-Event-ID", last})
			}
			e := ann.listen(path, headers...)
			if last != "" { // what it may have beyond that is void
				h := e.want("stream_block")
				keep, _ := h.data["data"].(map[string]any)["keep"].(map[string]any)
				if h.id != last || h.data["block_type"] != "retry" || fmt.Sprintf("%v.%v", keep["text"], keep["blocks"]) != last {
					t.Fatalf("after %q came %s with id %q", last, h.raw, h.id)
				}
				check(t, shown.take(h))
			}
			for left := 1 + random.IntN(4); left > 0 && !shown.ended; left-- {
				h, err := e.next()
				check(t, err)
				if err := shown.take(h); err != nil {
					t.Fatalf("seed %d: %q after %d cuts, the last at %q: %v", seed, message, cuts, last, err)
				}
				if h.id != "" && h.id != last {
					break // where each id can be gone on from, too
				}
			}
			if e.last != "" {
				last = e.last
			} else if last == "" {
				shown = screen{} // without an id it is told from the start
			}
			e.leave()
			cuts++
		}
		if last != "end" {
			t.Errorf("the last id is %q", last)
		}
		again := ann.ask(path, header{"Last-Event-ID", last})
		if again.response.StatusCode != http.StatusNoContent {
			t.Errorf("after the end: %d", again.response.StatusCode)
		}
		whole := ann.listen(path)
		var fresh screen
		for !fresh.ended {
			h, err := whole.next()
			check(t, err)
			check(t, fresh.take(h))
		}
		whole.over()
		record := ann.get(run + "?min_position=" + fresh.position.(string)).want(http.StatusOK)
		if shown.text != fresh.text || !equalJSON(t, shown.blocks, fresh.blocks) || fresh.started != 1 || fresh.text != record.text("answer") || shown.position != fresh.position {
			t.Errorf("seed %d: message %d, after %d cuts:\n%q %v\nin one piece:\n%q %v\nthe record has %q", seed, i, cuts, shown.text, shown.blocks, fresh.text, fresh.blocks, record.text("answer"))
		}
	}
	if e := ann.ask("/api/v1/runs/nothing/events"); e.response.StatusCode != http.StatusNotFound {
		t.Errorf("a run that is not: %d", e.response.StatusCode)
	}
	for _, wrong := range []string{"x", "1", "1.", "-1.0", "End"} {
		if e := ann.ask("/api/v1/runs/nothing/events", header{"Last-Event-ID", wrong}); e.response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("id %q: %d", wrong, e.response.StatusCode)
		}
	}
}

// What is streaming comes as "live", without an id and each piece once, however the pieces are joined; what is committed
// goes on beside it.
func TestAStreamShowsWhatIsStreamingNow(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	e := ann.listen("/api/v1/streams/thread-" + thread + "/events")
	head := e.want("subscribed").number("head")
	frame := streams.LiveFrame{Scope: domain.Scope(ann.scope), Stream: domain.NewStream("thread", thread), RunID: "run-1", Turn: 1, Attempt: 1}
	publish := func(kind, text, data string) {
		frame.N, frame.Kind, frame.Text, frame.Data = frame.N+1, kind, text, []byte(data)
		check(t, r.live.Publish(t.Context(), frame))
		switch kind {
		case "text":
			frame.Offset += len(text)
		case "block":
			frame.Blocks++
		}
	}
	e.begin(func() { publish("text", "…", "") }) // those that come before anybody follows are lost
	publish("text", "Hello \"you\"\n", "")
	publish("block", "table", `{"headers":["a"],"rows":[[1]]}`)
	publish("tool", "", `{"call_id":"c","tool":"list_tasks"}`)
	publish("retry", "", "")
	ann.do("PATCH", "/api/v1/threads/"+thread, map[string]string{"title": "Other plans"}).want(http.StatusOK)
	publish("text", "end", "")

	text, kinds, offset := "", "", -1.0
	for !strings.HasSuffix(text, "end") {
		h, err := e.next()
		check(t, err)
		if h.name == "" && !h.comment {
			if head++; h.id != strconv.FormatUint(head, 10) {
				t.Errorf("%s came where %d was due", h.raw, head)
			}
			continue
		}
		if h.comment {
			continue
		}
		if h.name != "live" || h.id != "" || h.data["run_id"] != "run-1" {
			t.Fatalf("%q %s with id %q", h.name, h.raw, h.id)
		}
		data := h.data["data"].(map[string]any)
		switch kind := h.data["kind"].(string); kind {
		case "text":
			if offset >= 0 && offset != h.data["offset"] {
				t.Errorf("at %v goes on what has %v bytes", h.data["offset"], offset)
			}
			offset = h.data["offset"].(float64) + float64(len(data["text"].(string)))
			text += data["text"].(string)
		case "block":
			if data["block_type"] != "table" || data["data"].(map[string]any)["headers"] == nil {
				t.Errorf("block %s", h.raw)
			}
			kinds += kind + " "
		default:
			kinds += kind + " "
		}
	}
	if !strings.HasSuffix(text, "Hello \"you\"\nend") || kinds != "block tool retry " {
		t.Errorf("streamed %q and %q", text, kinds)
	}
}

// begin does something again and again until something is heard of it.
func (e *ears) begin(do func()) {
	e.t.Helper()
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-done:
				return
			}
		}
	}()
	e.want("live")
	close(done)
	<-stopped
}
