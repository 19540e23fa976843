package rest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestADeviceIsAskedOverHTTP: a question is answered with rows, a write is found at its Location, both once under their key, and
// the lists have them without content.
func TestADeviceIsAskedOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	d := ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })

	const body = `{"action":"insert","table":"tasks","data":{"title":"Buy milk","dueDate":9007199254740993}}`
	write := ann.post("/api/v1/devices/laptop/mutations", body, header{"Idempotency-Key", "w1"}).want(http.StatusAccepted)
	at := write.header.Get("Location")
	if write.text("kind") != "mutation" || write.text("status") != "waiting" || !strings.HasSuffix(at, "/mutations/"+write.text("id")) {
		t.Fatalf("%s at %s", write.raw, at)
	}
	r.eventually("a done write", func() bool { return ann.see(at, write).text("status") == "completed" })
	done := ann.get(at).want(http.StatusOK)
	if len(done.list("mutations")) != 1 || !strings.Contains(string(done.raw), `"dueDate":9007199254740993`) || !strings.Contains(string(done.raw), `"row":{`) {
		t.Fatalf("it became %s", done.raw)
	}
	again := ann.post("/api/v1/devices/laptop/mutations", body, header{"Idempotency-Key", "w1"}).want(http.StatusAccepted)
	if again.header.Get("Idempotency-Replayed") != "true" || again.text("id") != write.text("id") || again.text("status") != "completed" {
		t.Fatalf("repeated: %s", again.raw)
	}
	if rows, err := d.Store().Rows(t.Context(), "tasks"); err != nil || len(rows) != 1 {
		t.Fatalf("the device has %d rows, %v", len(rows), err)
	}

	read := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"select","table":"tasks","filters":{"status":"todo"},"limit":5}`).want(http.StatusOK)
	if read.text("status") != "completed" || !strings.Contains(string(read.raw), "Buy milk") {
		t.Fatalf("answered %s", read.raw)
	}
	if got := ann.see(read.header.Get("Location"), read); string(got.raw) != string(read.raw) {
		t.Fatalf("%s, then %s", read.raw, got.raw)
	}
	gone := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"get","table":"notes","data":{"id":"nothing"}}`).want(http.StatusOK)
	if gone.text("status") != "completed" || !strings.Contains(string(gone.raw), `"answer":{"row":null}`) {
		t.Fatalf("answered %s", gone.raw)
	}
	bad := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"select","table":"tasks","filters":{"colour":"red"}}`).want(http.StatusOK)
	if bad.text("status") != "failed" || bad.text("reason") != "device_error" || !strings.Contains(string(bad.raw), "colour") {
		t.Fatalf("answered %s", bad.raw)
	}
	list := ann.see("/api/v1/devices/laptop/data-requests?limit=2", bad)
	if len(list.list("data")) != 2 || list.text("nextCursor") == "" || strings.Contains(string(list.raw), "colour") {
		t.Fatalf("listed %s", list.raw)
	}
	if rest := ann.get("/api/v1/devices/laptop/data-requests?limit=2&cursor=" + list.text("nextCursor")); len(rest.list("data")) != 1 {
		t.Fatalf("the next page is %s", rest.raw)
	}
	if ann.get("/api/v1/devices/laptop/mutations/"+read.text("id")).status != http.StatusNotFound {
		t.Fatal("a question was found among the writes")
	}
}

// TestAnAbsentDeviceIsWaitedFor: a write waits and may be taken back, a question is given up after its time.
func TestAnAbsentDeviceIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	_, leave := ann.visitor("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	leave()
	r.eventually("an absent device", func() bool { return !strings.Contains(string(ann.get("/api/v1/devices").raw), `"online":true`) })

	write := ann.post("/api/v1/devices/laptop/mutations", `{"action":"delete","table":"tasks","data":{"id":"t1"},"wait_seconds":3600}`).want(http.StatusAccepted)
	at := write.header.Get("Location")
	until, err := time.Parse(time.RFC3339Nano, write.text("wait_until"))
	check(t, err)
	asked, err := time.Parse(time.RFC3339Nano, write.text("requested_at"))
	check(t, err)
	if until.Sub(asked) != time.Hour {
		t.Fatalf("it waits %s", until.Sub(asked))
	}
	cancelled := ann.post(at+"/cancel", nil).want(http.StatusOK)
	if cancelled.text("status") != "failed" || cancelled.text("reason") != "cancelled" {
		t.Fatalf("cancelled: %s", cancelled.raw)
	}
	if again := ann.post(at+"/cancel", nil).want(http.StatusConflict); again.text("code") != "request_ended" {
		t.Fatalf("cancelled again: %s", again.raw)
	}
	lost := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"select","table":"tasks","wait_seconds":1}`).want(http.StatusOK)
	if lost.text("status") != "failed" || lost.text("reason") != "device_offline" {
		t.Fatalf("answered %s", lost.raw)
	}
}

// TestWhatADeviceCanNotBeAsked is refused before it becomes a command, with all that is wrong.
func TestWhatADeviceCanNotBeAsked(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	for body, pointer := range map[string]string{
		`{"action":"drop","table":"tasks","data":{"id":"x"}}`:                       "/action",
		`{"action":"insert","table":"secrets","data":{"title":"x"}}`:                "/table",
		`{"action":"insert","data":{"title":"x"}}`:                                  "/table",
		`{"action":"insert","table":"tasks","data":{"id":"x"}}`:                     "/data/id",
		`{"action":"insert","table":"tasks","data":{"title":"x"},"vector":[1]}`:     "/vector",
		`{"action":"update","table":"tasks","data":{"id":"x"}}`:                     "/data/updates",
		`{"action":"update","table":"tasks","data":{"updates":{"title":"x"}}}`:      "/data/id",
		`{"action":"delete","table":"tasks","data":{"id":7}}`:                       "/data/id",
		`{"action":"vector_upsert","table":"notes","data":{"id":"n"},"vector":[1]}`: "/table",
		`{"action":"vector_upsert","data":{"id":"n"}}`:                              "/vector",
		`{"action":"delete","table":"tasks","data":{"id":"x"},"wait_seconds":0}`:    "/wait_seconds",
	} {
		if got := ann.post("/api/v1/devices/laptop/mutations", body).want(http.StatusUnprocessableEntity); !strings.Contains(string(got.raw), `"`+pointer+`"`) {
			t.Errorf("%s: %s", body, got.raw)
		}
	}
	for body, pointer := range map[string]string{
		`{"action":"insert","table":"tasks"}`:                          "/action",
		`{"action":"get","table":"tasks"}`:                             "/data",
		`{"action":"get","table":"tasks","data":{"id":"x"},"limit":1}`: "/limit",
		`{"action":"select","table":"tasks","data":{"id":"x"}}`:        "/data",
		`{"action":"select","table":"tasks","limit":0}`:                "/limit",
	} {
		if got := ann.post("/api/v1/devices/laptop/data-requests", body).want(http.StatusUnprocessableEntity); !strings.Contains(string(got.raw), `"`+pointer+`"`) {
			t.Errorf("%s: %s", body, got.raw)
		}
	}
	for _, path := range []string{"/api/v1/devices/phone/mutations", "/api/v1/devices/My%20Mac/mutations"} {
		ann.post(path, `{"action":"delete","table":"tasks","data":{"id":"x"}}`).want(http.StatusNotFound)
	}
}
