package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

type timeline struct {
	Direction string `json:"direction"`
	Start     *int   `json:"start_seq"`
	End       *int   `json:"end_seq"`
	HasOlder  bool   `json:"has_older"`
	HasNewer  bool   `json:"has_newer"`
	Window    struct {
		Min  int `json:"min_seq"`
		Max  int `json:"max_seq"`
		Next int `json:"next_seq"`
	} `json:"window"`
	Entries []struct {
		Seq  int    `json:"seq"`
		At   string `json:"at"`
		Kind string `json:"kind"`
		Hash string `json:"hash"`
		Item struct {
			Text   string `json:"text"`
			CallID string `json:"call_id"`
			RunID  string `json:"run_id"`
			Status string `json:"status"`
			OK     bool   `json:"ok"`
		} `json:"item"`
	} `json:"entries"`
}

func (u *user) timeline(thread, query string) timeline {
	u.r.t.Helper()
	got := u.get("/api/v1/threads/" + thread + "/timeline" + query).want(http.StatusOK)
	var line timeline
	check(u.r.t, json.Unmarshal(got.raw, &line))
	return line
}

func (l timeline) seqs() []int {
	seqs := []int{}
	for _, e := range l.Entries {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func upTo(from, to int) []int {
	seqs := []int{}
	for i := from; i <= to; i++ {
		seqs = append(seqs, i)
	}
	return seqs
}

func TestTheTimelineOfAThread(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	thread := r.thread(ann, "Shopping").text("id")
	for _, message := range []string{"Create a task called Buy milk, high priority, due tomorrow", "How many todo tasks do I have?"} {
		ann.post("/api/v1/chat", map[string]any{"message": message, "session_id": thread}).want(http.StatusOK)
	}
	all := ann.timeline(thread, "?limit=0")
	n := all.Window.Max
	if !slices.Equal(all.seqs(), upTo(1, n)) || all.Window.Min != 1 || all.Window.Next != n+1 || all.HasOlder || all.HasNewer {
		t.Fatalf("all of it: %+v", all)
	}

	t.Run("every page has what it says", func(t *testing.T) {
		for limit := 1; limit <= n+1; limit += 3 {
			tail := ann.timeline(thread, fmt.Sprintf("?limit=%d", limit))
			first := max(1, n-limit+1)
			if !slices.Equal(tail.seqs(), upTo(first, n)) || tail.HasOlder != (first > 1) || tail.HasNewer || *tail.Start != first || *tail.End != n {
				t.Errorf("tail %d: %v %+v", limit, tail.seqs(), tail)
			}
			for seq := 0; seq <= n; seq += 4 {
				before := ann.timeline(thread, fmt.Sprintf("?direction=before&seq=%d&limit=%d", seq, limit))
				if want := upTo(max(1, seq-limit), seq-1); !slices.Equal(before.seqs(), want) || before.HasOlder != (seq-limit > 1) || !before.HasNewer {
					t.Errorf("before %d limit %d: %v older %v newer %v", seq, limit, before.seqs(), before.HasOlder, before.HasNewer)
				}
				after := ann.timeline(thread, fmt.Sprintf("?direction=after&seq=%d&limit=%d", seq, limit))
				if want := upTo(seq+1, min(n, seq+limit)); !slices.Equal(after.seqs(), want) || after.HasNewer != (seq+limit < n) || after.HasOlder != (seq > 0) {
					t.Errorf("after %d limit %d: %v older %v newer %v", seq, limit, after.seqs(), after.HasOlder, after.HasNewer)
				}
			}
		}
		if end := ann.timeline(thread, fmt.Sprintf("?direction=after&seq=%d", n)); len(end.Entries) != 0 || end.Start != nil || end.End != nil || end.HasNewer || !end.HasOlder {
			t.Errorf("after the head: %+v", end)
		}
		for _, query := range []string{"?direction=after&seq=3&limit=0", "?direction=before&seq=6&limit=0"} {
			if got := ann.timeline(thread, query).seqs(); !slices.Equal(got, upTo(4, n)) && !slices.Equal(got, upTo(1, 5)) {
				t.Errorf("%s: %v", query, got)
			}
		}
	})

	t.Run("a chat shows messages, calls, results, answers and ends", func(t *testing.T) {
		shown := ann.timeline(thread, "?steps=false")
		kinds := []string{}
		for _, e := range shown.Entries {
			kinds = append(kinds, e.Kind)
			if e.Hash == "" || e.At == "" || all.Entries[e.Seq-1].Hash != e.Hash {
				t.Errorf("entry %+v", e)
			}
		}
		one := []string{"message", "tool_call", "tool_result", "assistant", "run_end"}
		if want := append(append([]string{"title"}, one...), one...); !slices.Equal(kinds, want) {
			t.Fatalf("shown %v, want %v", kinds, want)
		}
		if shown.Entries[2].Item.CallID != shown.Entries[3].Item.CallID || !shown.Entries[3].Item.OK || shown.Entries[5].Item.Status != "completed" {
			t.Errorf("entries %+v", shown.Entries)
		}
		if two := ann.timeline(thread, "?steps=false&limit=2"); !slices.Equal(two.seqs(), shown.seqs()[9:]) || !two.HasOlder {
			t.Errorf("the newest two: %v", two.seqs())
		}
		if streamed := ann.timeline(thread, "?steps=false&limit=0"); !slices.Equal(streamed.seqs(), shown.seqs()) {
			t.Errorf("streamed: %v", streamed.seqs())
		}
	})

	t.Run("an unchanged timeline is not sent again", func(t *testing.T) {
		path := "/api/v1/threads/" + thread + "/timeline"
		tag := ann.get(path).header.Get("ETag")
		if tag != fmt.Sprintf(`"v%d"`, n) {
			t.Errorf("ETag %s", tag)
		}
		ann.get(path, header{"If-None-Match", tag}).want(http.StatusNotModified)
	})

	t.Run("the scope's events are one after the other", func(t *testing.T) {
		after, seen := 0, 0
		for {
			got := ann.get(fmt.Sprintf("/api/v1/events?after=%d&limit=7", after)).want(http.StatusOK)
			for _, e := range got.list("data") {
				if seen++; e["position"] != float64(seen) {
					t.Fatalf("position %v after %d", e["position"], seen-1)
				}
			}
			next := int(got.at("after").(float64))
			if next == after {
				break
			}
			after = next
		}
		if seen < n {
			t.Errorf("%d events", seen)
		}
	})
}

func TestThreads(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	var last *answer
	want := []string{}
	for i := range 5 {
		last = r.thread(ann, fmt.Sprintf("Thread %d", i))
		want = append(want, last.text("id"))
	}
	slices.Reverse(want)
	got, path := []string{}, "/api/v1/threads?limit=2&min_position="+last.header.Get("Position")
	for pages := 0; path != ""; pages++ {
		page := ann.get(path).want(http.StatusOK)
		for _, one := range page.list("data") {
			got = append(got, one["id"].(string))
		}
		cursor := page.text("nextCursor")
		if (cursor == "") != (page.header.Get("Link") == "") || pages > 5 {
			t.Fatalf("page %d: cursor %q, link %q", pages, cursor, page.header.Get("Link"))
		}
		if path = ""; cursor != "" {
			path = "/api/v1/threads?limit=2&cursor=" + cursor
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}

	of := "/api/v1/threads/" + last.text("id")
	tag := last.header.Get("ETag")
	ann.see(of, last)
	ann.get(of, header{"If-None-Match", tag}).want(http.StatusNotModified)
	renamed := ann.do("PATCH", of, map[string]string{"title": " Grün & <b> "}, header{"If-Match", tag}).want(http.StatusOK)
	if seen := ann.see(of, renamed); seen.text("title") != "Grün & <b>" || seen.header.Get("ETag") != renamed.header.Get("ETag") {
		t.Errorf("renamed %s", seen.raw)
	}
	ann.do("PATCH", of, map[string]string{"title": "late"}, header{"If-Match", tag}).problem(http.StatusPreconditionFailed, "precondition_failed")
	ann.post("/api/v1/threads", `{"title":"once"}`, key(9)).want(http.StatusCreated)
	if again := ann.post("/api/v1/threads", `{"title":"once"}`, key(9)).want(http.StatusCreated); again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again %v", again.header)
	}
	ann.post("/api/v1/threads", `{"title":"other"}`, key(9)).problem(http.StatusUnprocessableEntity, "id_reused")
}
