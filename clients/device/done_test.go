package device_test

import (
	"testing"

	"github.com/cairnhq/cairn/clients/device"
)

// A call that comes twice is told as done once by who keeps a journal, and twice by who keeps none.
func TestOnlyWhatWasDoneIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		forgetful bool
		done      int
	}{
		"with a journal":    {false, 1},
		"without a journal": {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := listen(t)
			done := make(chan device.Call, 4)
			start(t, device.Options{URL: b.URL, Forgetful: c.forgetful, OnDone: func(c device.Call) { done <- c }})
			p := b.accept()
			p.greet()
			for range 2 {
				p.write(insertOnce)
				p.expect("tool_result") // which is sent after it was told
			}
			if n := len(done); n != c.done {
				t.Errorf("told %d times, not %d", n, c.done)
			}
		})
	}
}
