package errand_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/cmd/cairn/errand"
)

// serve answers as the backend would: a write is done at the second look.
func serve(t *testing.T, devices string) (errand.Client, *atomic.Value) {
	t.Helper()
	var looks atomic.Int32
	var asked atomic.Value
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/devices", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, devices) })
	mux.HandleFunc("POST /api/v1/devices/{device}/data-requests", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Store(string(body))
		fmt.Fprint(w, `{"id":"q","device_id":"d","status":"completed","answer":{"rows":[]}}`)
	})
	mux.HandleFunc("POST /api/v1/devices/{device}/mutations", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/api/v1/devices/d/mutations/m")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"id":"m","device_id":"d","status":"waiting"}`)
	})
	mux.HandleFunc("GET /api/v1/devices/d/mutations/m", func(w http.ResponseWriter, _ *http.Request) {
		switch looks.Add(1) {
		case 1:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"status":404,"code":"not_found","title":"Not found"}`)
		case 2:
			fmt.Fprint(w, `{"id":"m","device_id":"d","status":"failed","reason":"device_offline"}`)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return errand.Client{API: api.New(server.URL, api.WithTokens(api.Tokens{Access: "a", AccessExpires: time.Now().Add(time.Hour), Refresh: "r", RefreshExpires: time.Now().Add(time.Hour)}))}, &asked
}

func TestARequestIsFollowedToItsOutcome(t *testing.T) {
	c, asked := serve(t, `{"data":[]}`)
	r, err := c.Query(t.Context(), "d", map[string]any{"action": "select", "filters": map[string]any{"dueDate": json.RawMessage("9007199254740993")}})
	if err != nil || r.Status != "completed" || asked.Load() != `{"action":"select","filters":{"dueDate":9007199254740993}}` {
		t.Fatalf("%+v, %v; asked %v", r, err, asked.Load())
	}
	r, err = c.Mutate(t.Context(), "d", map[string]any{}, time.Minute)
	if err != nil || r.Status != "failed" || r.Reason != "device_offline" {
		t.Fatalf("%+v, %v", r, err)
	}
	c, _ = serve(t, `{"data":[]}`)
	if r, err = c.Mutate(t.Context(), "d", map[string]any{}, time.Nanosecond); err != nil || r.Ended() || r.Location == "" {
		t.Fatalf("without patience: %+v, %v", r, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Mutate(gone, "d", map[string]any{}, time.Minute); err == nil {
		t.Fatal("who goes is told that it is done")
	}
}

func TestTheDeviceThatIsMeant(t *testing.T) {
	const one, other, here = `{"id":"one","online":false}`, `{"id":"other","online":false}`, `{"id":"here","online":true}`
	for _, c := range []struct{ named, there, want string }{
		{"x", "", "x"}, {"", one, "one"}, {"", one + "," + here, "here"}, {"", one + "," + other, ""}, {"", here + "," + here, ""}, {"", "", ""},
	} {
		client, _ := serve(t, `{"data":[`+c.there+`]}`)
		if got, err := client.Choose(t.Context(), c.named); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestValuesOfColumns(t *testing.T) {
	got, err := errand.Values([]string{"title=a=b", "dueDate:=17", "text:=\"x\"", "empty="})
	want := map[string]any{"title": "a=b", "dueDate": json.RawMessage("17"), "text": json.RawMessage(`"x"`), "empty": ""}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got)\n%s", err, diff)
	}
	for _, bad := range []string{"title", "=x", "a:=x", ":=1"} {
		if _, err := errand.Values([]string{bad}); err == nil || !strings.Contains(err.Error(), "JSON") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
