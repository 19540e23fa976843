package rest_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/handlers/rest"
)

func TestMarkdownIsRemoved(t *testing.T) {
	for in, want := range map[string]string{
		"plain text": "plain text",
		"# Title\n\nSome **bold**, *light* and `code`.": "Title\n\nSome bold, light and code.",
		"- one\n- [x] two\n* three\n1. four":            "one\ntwo\nthree\n1. four",
		"> quoted\n> twice":                             "quoted\ntwice",
		"see [the docs](https://x.example/a_b) now":     "see the docs now",
		"![a cat](cat.png)":                             "a cat",
		"```go\nx := a * b * c\n```\nafter":             "x := a * b * c\nafter",
		"snake_case_name and 2 * 3 * 4":                 "snake_case_name and 2 * 3 * 4",
		"| a | b |\n|---|---|\n| 1 | 2 |":               "a, b\n1, 2",
		"~~gone~~ __strong__ ***both***":                "gone strong both",
		"<b>tag</b> and 1 < 2":                          "tag and 1 < 2",
		`a \* b`:                                        "a * b",
		"above\n\n---\n\nbelow":                         "above\n\nbelow",
		"You have 1 todo task:\n1. **Buy milk** (high)": "You have 1 todo task:\n1. Buy milk (high)",
	} {
		if got := rest.Plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPlainNeverPanicsAndNeverGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching("[-a-z*_`#>|\\[\\]()!~ \n\\\\<]{0,80}").Draw(t, "text")
		if got := rest.Plain(in); len(got) > 2*len(in) {
			t.Fatalf("plain(%q) = %q", in, got)
		}
	})
}

func TestEveryProblemIsNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range rest.Kinds() {
		if seen[k.Code] || k.Title == "" || k.About == "" || k.Status < 400 {
			t.Errorf("problem %+v", k)
		}
		seen[k.Code] = true
	}
	if got := rest.KindOf("made_up"); got.Code != "made_up" || got.Status != 409 {
		t.Errorf("an unknown rejection is %+v", got)
	}
}
