package chat_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/cmd/cairn/chat"
)

// backend answers each message with a tool call and two pieces of text; "fail" fails.
func backend(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/sessions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "refresh_token": "r", "access_expires_at": time.Now().Add(time.Hour)})
	})
	mux.HandleFunc("GET /api/v1/ws/device", func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			var f struct {
				Type      string
				Message   string
				RequestID string `json:"request_id"`
				SessionID string `json:"session_id"`
			}
			if conn.ReadJSON(&f) != nil {
				return
			}
			say := func(frame map[string]any) {
				frame["request_id"] = f.RequestID
				_ = conn.WriteJSON(frame)
			}
			switch f.Type {
			case "device_hello":
				say(map[string]any{"type": "hello"})
			case "home_request":
				say(map[string]any{"type": "stream_start", "run_id": "run", "session_id": "thread"})
				if f.Message == "fail" {
					say(map[string]any{"type": "stream_end", "error": map[string]string{"code": "refused", "message": "no key"}})
					continue
				}
				say(map[string]any{"type": "tool_call", "id": "run.1.0.1", "run_id": "run", "action": "insert", "table": "tasks", "data": map[string]string{"title": f.Message}})
				var result map[string]any
				if conn.ReadJSON(&result) != nil || result["type"] != "tool_result" {
					return
				}
				say(map[string]any{"type": "stream_text", "chunk": "Done: "})
				say(map[string]any{"type": "stream_text", "chunk": f.Message + " in [" + f.SessionID + "]"})
				say(map[string]any{"type": "stream_block", "block_type": "table", "data": map[string]any{"headers": []string{"a"}, "rows": [][]any{{1}}}})
				say(map[string]any{"type": "stream_end", "mutations": []any{}})
			}
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func run(t *testing.T, o chat.Options, in string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o.Out, o.In = &out, strings.NewReader(in)
	if o.DB == "" {
		o.DB = filepath.Join(t.TempDir(), "device.db")
	}
	err := chat.Run(t.Context(), o)
	return out.String(), err
}

func TestAConversation(t *testing.T) {
	url := backend(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	out, err := run(t, chat.Options{URL: url, Email: "a@b.c", Password: "x", TokenFile: tokens}, "Buy milk\n\nfail\nBuy tea\n/quit\nnever\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`[insert tasks] {`, `"title":"Buy milk"`, "Done: Buy milk in []\n", "  a\n  1\n", "[failed] refused: no key", "Done: Buy tea in [thread]\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "never") {
		t.Errorf("it went on after /quit:\n%s", out)
	}
	// The session goes on without a password.
	if out, err = run(t, chat.Options{URL: url, TokenFile: tokens, Message: "once", JSON: true}, ""); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
	if _, err := run(t, chat.Options{URL: url, TokenFile: tokens, Message: "fail"}, ""); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("a message that fails: %v", err)
	}
	if _, err := run(t, chat.Options{URL: url, Message: "who?"}, ""); err == nil {
		t.Error("nobody may chat without saying who")
	}
}
