package thread_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
)

// Row ids stand in clear: what is no id, such as a user's text, does not pass for one.
func TestRowIDsAreNoTexts(t *testing.T) {
	for _, id := range []string{"t1", "6f0d1c1e-6a43-4a0e-9d0f-0c2f3b0f6f1a", "clé", strings.Repeat("x", 200)} {
		if !thread.IsRowID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, text := range []string{"", "Buy milk", "a\x00b", "a\nb", "a\u00a0b", "\xff", strings.Repeat("x", 201)} {
		if thread.IsRowID(text) {
			t.Errorf("%q passes", text)
		}
	}
}
