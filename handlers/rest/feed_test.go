package rest_test

import (
	codes "encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Whoever loses its stream again and again, at any byte, and comes with the last id, hears every event once and in order.
func TestAStreamThatIsLostGoesOn(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)

	const renames = 60
	var writing errgroup.Group
	for half := range 2 {
		writing.Go(func() error {
			for i := range renames / 2 {
				ann.do("PATCH", "/api/v1/threads/"+thread, map[string]string{"title": fmt.Sprintf("Plans %d of %d\n<&>", i, half)}).want(http.StatusOK)
			}
			return nil
		})
	}
	var listening errgroup.Group
	for i, path := range []string{"/api/v1/events?after=0", "/api/v1/streams/thread-" + thread + "/events?after=0", "/api/v1/events?after=0&types=thread.titled"} {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		listening.Go(func() error {
			titles := 0
			cursor, last := uint64(0), ""
			for titles < renames+1 {
				var headers []header
				if last != "" {
					headers = append(headers, header{"Last-Event-ID", last})
				}
				e := ann.listen(path, headers...)
				e.want("subscribed")
				for left := random.IntN(30); left > 0 && titles < renames+1; left-- {
					h := e.want("")
					at := h.number("position")
					if i == 1 {
						at = h.number("seq")
					}
					if h.id != strconv.FormatUint(at, 10) || at <= cursor || i < 2 && at != cursor+1 {
						return fmt.Errorf("seed %d: %s: event %d with id %s came after %d", seed, path, at, h.id, cursor)
					}
					if cursor = at; h.data["event_type"] == "thread.titled" {
						titles++
					}
				}
				if e.last != "" {
					last = e.last
				}
				e.leave()
			}
			return nil
		})
	}
	check(t, writing.Wait())
	check(t, listening.Wait())
}

// What a stream tells of an event is what the page says of it, and with stored it can be verified: the chain and the digest.
func TestAStreamSaysWhatThePageSays(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	ann.post("/api/v1/chat", map[string]any{"message": "hello\r\nthere <&>", "session_id": thread}).want(http.StatusOK)

	scope := ann.listen("/api/v1/events?after=0&stored=true")
	head := scope.want("subscribed").number("head")
	hashes := map[string][]byte{}
	for _, was := range ann.history(head) {
		h := scope.want("")
		ann.same(was, h)
		var event struct {
			ID, Stream, At, Hash string
			Seq                  uint64
			Type                 string `json:"event_type"`
			Schema               int
			SealDigest           string `json:"seal_digest"`
			Salt                 string
			Stored               struct{ Data, Text, Actor, At string }
		}
		check(t, json.Unmarshal([]byte(h.raw), &event))
		digest, _ := codes.DecodeString(event.SealDigest)
		salt, _ := codes.DecodeString(event.Salt)
		if before, ok := hashes[event.Stream]; ok || event.Seq == 1 {
			if !ok {
				before = codec.Genesis(domain.Stream(event.Stream))
			}
			hash := codec.Chain(before, streams.Recorded{Stream: domain.Stream(event.Stream), Version: event.Seq, ID: event.ID, Type: event.Type,
				Schema: event.Schema, At: event.Stored.At, Actor: []byte(event.Stored.Actor), Data: []byte(event.Stored.Data), SealDigest: digest})
			if codes.EncodeToString(hash) != event.Hash {
				t.Errorf("event %d of %s has another hash than what is stored", event.Seq, event.Stream)
			}
		}
		hashes[event.Stream], _ = codes.DecodeString(event.Hash)
		if len(digest) > 0 && !codec.Verify([]byte(event.Stored.Text), salt, digest) {
			t.Errorf("event %d of %s has another digest than its text: %s", event.Seq, event.Stream, h.raw)
		}
	}

	page := ann.get("/api/v1/streams/thread-" + thread + "/events?limit=2").want(http.StatusOK)
	one := ann.listen("/api/v1/streams/thread-" + thread + "/events?after=0")
	one.want("subscribed")
	for _, was := range page.list("data") {
		ann.same(was, one.want(""))
	}
	if len(page.list("data")) != 2 || page.at("after") != 2.0 || page.at("head").(float64) < 3 {
		t.Errorf("page %s", page.raw)
	}
	beyond := "/api/v1/streams/thread-" + thread + "/events?after=100000"
	ann.get(beyond).problem(http.StatusUnprocessableEntity, "invalid")
}

// Where a cursor can't be gone on from, the stream says why and from where one can, and an EventSource that comes again by
// itself goes on from there.
func TestWhereAStreamBegins(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	made := r.thread(ann, "Plans")
	thread := made.text("id")
	of := "/api/v1/streams/thread-" + thread + "/events"
	rename := func(title string) {
		ann.do("PATCH", "/api/v1/threads/"+thread, map[string]string{"title": title}).want(http.StatusOK)
	}

	now := ann.listen(of)
	head := now.want("subscribed").number("head")
	if now.retry == "" {
		t.Error("no retry")
	}
	rename("Now")
	if h := now.want(""); h.number("seq") != head+1 {
		t.Errorf("without a cursor, %s came first, and the head was %d", h.raw, head)
	}
	begin := ann.listen(of + "?after=0")
	begin.want("subscribed")
	if h := begin.want(""); h.number("seq") != 1 {
		t.Errorf("after 0, %s came first", h.raw)
	}
	both := ann.listen(of+"?after=0", header{"Last-Event-ID", "1"})
	both.want("subscribed")
	second := both.want("")
	if second.number("seq") != 2 {
		t.Errorf("with Last-Event-ID 1, %s came first", second.raw)
	}
	right := ann.listen(of + "?after=2&after_hash=" + second.data["hash"].(string))
	right.want("subscribed")
	if h := right.want(""); h.number("seq") != 3 {
		t.Errorf("after 2, %s came first", h.raw)
	}
	for reason, query := range map[string]string{"beyond_head": "?after=1000", "other_hash": "?after=2&after_hash=" + strings.Repeat("ab", 32)} {
		e := ann.listen(of + query)
		at := e.want("subscribed").number("head")
		h := e.want("reset")
		if h.data["reason"] != reason || h.number("head") != at || h.id != strconv.FormatUint(at, 10) || len(h.data["head_hash"].(string)) != 64 {
			t.Errorf("%s: %s with id %s", query, h.raw, h.id)
		}
		e.over()
		rename("After " + reason)
		again := ann.listen(of+query, header{"Last-Event-ID", e.last})
		again.want("subscribed")
		if h := again.want(""); h.number("seq") != at+1 {
			t.Errorf("after a reset at %d came %s", at, h.raw)
		}
	}
	for _, wrong := range []string{"?after=-1", "?after=x", "?after_hash=xyz", "?stored=maybe", "?types=thread.titled", "?nothing=1"} {
		if e := ann.ask(of + wrong); e.response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", wrong, e.response.StatusCode)
		}
	}
	if e := ann.ask(of, header{"Last-Event-ID", "x"}); e.response.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("Last-Event-ID x: %d", e.response.StatusCode)
	}
	ann.get("/api/v1/events?types=thread.titled").problem(http.StatusUnprocessableEntity, "invalid")
	ann.get(of+"?stored=true").problem(http.StatusUnprocessableEntity, "invalid")
}

// A filter leaves out what it does not name, and the cursor moves all the same: nobody reads a year of events again.
func TestAFilteredStreamMovesItsCursor(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.StreamingPing = 20 * time.Millisecond })
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	ann.post("/api/v1/chat", map[string]any{"message": "How many todo tasks do I have?", "session_id": thread}).want(http.StatusOK)

	e := ann.listen("/api/v1/events?after=0&types=thread.titled,thread.opened")
	head := e.want("subscribed").number("head")
	for _, want := range []string{"thread.opened", "thread.titled"} {
		if h := e.want(""); h.data["event_type"] != want {
			t.Errorf("%s came where %s was due", h.raw, want)
		}
	}
	if h := e.want("events"); h.number("cursor") < head || h.id != strconv.FormatUint(h.number("cursor"), 10) || len(h.data["events"].([]any)) != 0 {
		t.Errorf("the cursor is told with %s and id %s, and the head was %d", h.raw, h.id, head)
	}

	ann.device("laptop") // what the agent wants to know, it asks it
	of := ann.listen("/api/v1/events?after=0&agent_id=task_agent")
	of.want("subscribed")
	for {
		h := of.want("")
		data, _ := h.data["data"].(map[string]any)
		if data["run_id"] == nil {
			t.Errorf("no event of a run: %s", h.raw)
		}
		if h.data["event_type"] == "thread.turn_requested" {
			break
		}
	}
	nobody := ann.listen("/api/v1/events?after=0&agent_id=nobody")
	nobody.want("subscribed")
	nobody.want("events")
}

// Who may follow: the owner, with a token or once with a ticket; nobody else, and nobody any more when access has ended.
func TestWhoMayFollow(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann, bob := r.user("ann"), r.user("bob")
	thread := r.thread(ann, "Plans").text("id")
	chat := ann.post("/api/v1/chat", map[string]any{"message": "hello", "session_id": thread}).want(http.StatusOK)
	run := "/api/v1/runs/" + chat.text("run_id") + "/events"
	of := "/api/v1/streams/thread-" + thread + "/events"
	status := func(u *user, path string, headers ...header) int {
		e := u.ask(path, headers...)
		defer e.leave()
		return e.response.StatusCode
	}
	r.eventually("the run in the read model", func() bool { return ann.get(strings.TrimSuffix(run, "/events")).status == http.StatusOK })
	for path, other := range map[string]int{"/api/v1/events": 200, of: 404, run: 404} {
		if got := status(bob, path); got != other {
			t.Errorf("%s by another: %d", path, got)
		}
		for _, u := range []*user{r.nobody(), {r: r, token: "nonsense"}} {
			if got := status(u, path); got != http.StatusUnauthorized {
				t.Errorf("%s by nobody: %d", path, got)
			}
		}
		ticket := ann.post("/api/v1/ws/tickets", nil).want(http.StatusCreated).text("ticket")
		query := path + "?ticket=" + url.QueryEscape(ticket)
		if first, second := status(r.nobody(), query), status(r.nobody(), query); first != http.StatusOK || second != http.StatusUnauthorized {
			t.Errorf("%s with a ticket: %d, and again %d", path, first, second)
		}
		if got := status(r.nobody(), path+"?ticket=nonsense"); got != http.StatusUnauthorized {
			t.Errorf("%s with a wrong ticket: %d", path, got)
		}
	}
	ticket := ann.post("/api/v1/ws/tickets", nil).want(http.StatusCreated).text("ticket")
	r.nobody().get("/api/v1/threads?ticket="+ticket).problem(http.StatusUnauthorized, "unauthorized")
	for _, unknown := range []string{"thread-nothing", "nonsense", "thread-" + strings.Repeat("x", 200)} {
		ann.get("/api/v1/streams/"+unknown+"/events").problem(http.StatusNotFound, "not_found")
		if got := status(ann, "/api/v1/streams/"+unknown+"/events"); got != http.StatusNotFound {
			t.Errorf("a stream %s: %d", unknown, got)
		}
	}
	if text := r.log.text(); strings.Contains(text, ticket) {
		t.Error("a ticket is in the log")
	}

	scope, stream := ann.listen("/api/v1/events"), ann.listen(of)
	scope.want("subscribed")
	stream.want("subscribed")
	ann.do("DELETE", "/api/v1/me", nil).want(http.StatusNoContent)
	for _, e := range []*ears{scope, stream} {
		for {
			h, err := e.next()
			if err != nil {
				t.Fatalf("the stream ended without a word: %v", err)
			}
			if h.name == "reset" {
				if h.data["reason"] != "access" || h.id != "" {
					t.Errorf("reset %s with id %q", h.raw, h.id)
				}
				break
			}
			if strings.Contains(h.raw, "Plans") {
				t.Errorf("after erasure it tells %s", h.raw)
			}
		}
		e.over()
	}
	if got := status(ann, "/api/v1/events"); got != http.StatusGone {
		t.Errorf("after erasure: %d", got)
	}
}

// A user may not hold the server's streams all.
func TestStreamsOfAUserAreCounted(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.Streams = 2 })
	ann := r.user("ann")
	first := ann.listen("/api/v1/events")
	ann.listen("/api/v1/events")
	if e := ann.ask("/api/v1/events"); e.response.StatusCode != http.StatusTooManyRequests || e.response.Header.Get("Retry-After") == "" {
		t.Errorf("a third: %d %v", e.response.StatusCode, e.response.Header)
	}
	ann.get("/api/v1/events").want(http.StatusOK)
	r.user("bob").listen("/api/v1/events")
	first.leave()
	r.eventually("room for another", func() bool {
		e := ann.ask("/api/v1/events")
		defer e.leave()
		return e.response.StatusCode == http.StatusOK
	})
}
