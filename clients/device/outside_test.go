package device_test

import (
	"testing"

	"github.com/cairnhq/cairn/clients/device"
)

// TestWhatIsAskedOutsideARun: a question is answered by a data_response and changes nothing, a write by a tool_result and once,
// and the journal sends both again until they are acknowledged.
func TestWhatIsAskedOutsideARun(t *testing.T) {
	b := listen(t)
	d := start(t, device.Options{URL: b.URL})
	p := b.accept()
	p.greet()
	const write = `{"type":"mutation","id":"m1","action":"insert","table":"tasks","data":{"title":"once"},"deadline":"2027-01-01T00:00:00Z"}`
	p.write(write)
	first := p.expect("tool_result")
	p.write(write)
	if again := p.expect("tool_result"); again["row"].(map[string]any)["id"] != first["row"].(map[string]any)["id"] {
		t.Fatalf("%v, then %v", first, again)
	}
	p.write(`{"type":"tool_result_ack","id":"m1"}`)
	p.write(`{"type":"data_request","id":"q1","action":"select","table":"tasks","filters":{"status":"todo"},"limit":1}`)
	if f := p.expect("data_response"); f["id"] != "q1" || len(f["rows"].([]any)) != 1 {
		t.Fatalf("got %v", f)
	}
	p.write(`{"type":"data_request","id":"q2","action":"delete","table":"tasks","data":{"id":"x"}}`)
	if f := p.expect("data_response"); f["error"] == nil {
		t.Fatalf("a question deleted: %v", f)
	}
	if rows, err := d.Store().Rows(t.Context(), "tasks"); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	d.Cut()
	p = b.accept()
	p.greet()
	for _, id := range []string{"q1", "q2"} { // m1 was acknowledged
		if f := p.expect("tool_result"); f["id"] != id {
			t.Fatalf("got %v, want %s", f, id)
		}
	}
}
