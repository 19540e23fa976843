package output_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/domain/output"
)

// FuzzFormatter: whatever a model writes, the formatter says valid text and whole blocks, the same however the text was cut,
// and nothing that was not written. What two cuts leave is enough: a formatter that minds a cut minds one of them.
func FuzzFormatter(f *testing.F) {
	for _, in := range []string{
		"", " \n ", "Hello, {world}", `{"type":"text","content":"Hi <b> \"\u00e9\ud83d\ude00"}`, chart, tableText,
		"Here:\n```json\n" + chart + "\n```\nDone.", "``` {", `{"a":{"type":"text","content":"b"}}`, `{"type":"entity_ref","entity":"task","ids":["t2"]}`,
		`{"type":"timeline","checkpoints":[{"id":"c","title":"T","date":5}]}`, `{"type":"text","content":"cut \ud8`, "a\xffb\xe2\x82", strings.Repeat(`{"a":`, 70),
		`{"type":"chart" oops {"type":"text","content":"a"}`, `{"content":"late","type":"text"} {"type":"text"`, "```go\nx := {1}\n```\n" + chart,
	} {
		f.Add(in, uint(len(in)/2), uint(len(in)-1))
	}
	f.Fuzz(func(t *testing.T, in string, a, b uint) {
		if len(in) > 4096 {
			return
		}
		cuts := []int{int(a % uint(len(in)+1)), int(b % uint(len(in)+1))}
		slices.Sort(cuts)
		for name, fresh := range map[string]func() formatter{
			"home":  func() formatter { return output.NewHome(rows) },
			"plain": func() formatter { return output.NewPlain() },
		} {
			whole, warned := run(t, fresh(), in)
			cut, warnedCut := run(t, fresh(), in, cuts...)
			if diff := cmp.Diff(whole, cut) + cmp.Diff(warned, warnedCut); diff != "" {
				t.Fatalf("%s %q cut at %v (-whole +cut):\n%s", name, in, cuts, diff)
			}
			size := 0
			for _, frame := range whole {
				size += len(frame.Text)
			}
			// A byte that is no character becomes one of three bytes; nothing else grows.
			if size > 3*len(in) {
				t.Fatalf("%s says %d bytes of %d", name, size, len(in))
			}
		}
	})
}
