package output_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain/output"
)

type formatter interface {
	Write(string) []output.Frame
	Close() []output.Frame
	Warnings() []string
}

// rows are what the run's tools returned in these tests.
func rows(entity string, ids []string) []json.RawMessage {
	if entity != "task" {
		return nil
	}
	var found []json.RawMessage
	for _, id := range []string{"t1", "t2"} {
		if ids == nil || strings.Contains(strings.Join(ids, " "), id) {
			found = append(found, json.RawMessage(`{"id":"`+id+`","title":"Buy <milk>"}`))
		}
	}
	return found
}

func join(frames []output.Frame) []output.Frame {
	var joined []output.Frame
	for _, f := range frames {
		if n := len(joined); n > 0 && f.Block == "" && joined[n-1].Block == "" {
			joined[n-1].Text += f.Text
			continue
		}
		joined = append(joined, f)
	}
	return joined
}

// run formats text cut at the given places and checks each frame.
func run(t interface{ Fatalf(string, ...any) }, f formatter, text string, cuts ...int) ([]output.Frame, []string) {
	var all []output.Frame
	at := 0
	for _, cut := range append(cuts, len(text)) {
		if cut < at || cut > len(text) {
			continue
		}
		all = append(all, f.Write(text[at:cut])...)
		at = cut
	}
	all = append(all, f.Close()...)
	for _, frame := range all {
		if !utf8.ValidString(frame.Text) || (frame.Block == "") == (frame.Text == "") || frame.Block != "" && !json.Valid(frame.Data) {
			t.Fatalf("frame %+v of %q", frame, text)
		}
	}
	return join(all), f.Warnings()
}

func say(s string) output.Frame { return output.Frame{Text: s} }
func show(block, data string) output.Frame {
	return output.Frame{Block: block, Data: json.RawMessage(data)}
}

const (
	chart     = `{"type":"chart","chartType":"bar","title":"A","data":[{"x":1,"b":2}],"config":{"b":{}}}`
	chartData = `{"chartType":"bar","title":"A","data":[{"x":1,"b":2}],"config":{"b":{}}}`
	tableText = `{"type":"table","headers":["a","b"],"rows":[[1,"x"],[null,"y"]]}`
	tableData = `{"headers":["a","b"],"rows":[[1,"x"],[null,"y"]]}`
)

func TestHomeExamples(t *testing.T) {
	task := func(ids ...string) string {
		var all []string
		for _, id := range ids {
			all = append(all, `{"id":"`+id+`","title":"Buy <milk>"}`)
		}
		return `{"entity":"task","rows":[` + strings.Join(all, ",") + `]}`
	}
	for name, c := range map[string]struct {
		in   string
		want []output.Frame
		warn int
	}{
		"nothing":                    {``, nil, 0},
		"white space":                {" \n ", []output.Frame{say(" \n ")}, 0},
		"plain text":                 {"  Hello, {world} {} { \"a\" } ok", []output.Frame{say("  Hello, {world} {} { \"a\" } ok")}, 0},
		"text":                       {`{"type":"text","content":"Hi <b>"}`, []output.Frame{say("Hi <b>")}, 0},
		"two in one":                 {`{"type":"text","content":"a"}{"type":"text","content":"b"}`, []output.Frame{say("ab")}, 0},
		"space between objects":      {"{\"type\":\"text\",\"content\":\"a\"}\n\n" + chart + "\n", []output.Frame{say("a"), show("chart", chartData)}, 0},
		"text between objects":       {chart + "\nand " + tableText + " done", []output.Frame{show("chart", chartData), say("\nand "), show("table", tableData), say(" done")}, 0},
		"escapes":                    {`{"type":"text","content":"\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00"}`, []output.Frame{say("\"\\/\b\f\n\r\tAé😀")}, 0},
		"lone surrogates":            {`{"type":"text","content":"\ud83dx\ude00\ud83d\ud83d\ude00\ud83d"}`, []output.Frame{say("�x��😀�")}, 0},
		"no escapes":                 {`{"type":"text","content":"\q\u12g4"}`, []output.Frame{say(`\q\u12g4`)}, 0},
		"control characters":         {"{\"type\":\"text\",\"content\":\"a\nb\"}", []output.Frame{say("a\nb")}, 0},
		"content first":              {`{"content":"a\n","x":{"type":"chart"},"type":"text"}`, []output.Frame{say("a\n")}, 0},
		"more keys":                  {`{ "type" : "text" , "lang":"en", "content" : "a", "n":[1,{"type":"text"}] }`, []output.Frame{say("a")}, 0},
		"a type inside":              {`{"a":{"type":"text","content":"b"}}`, []output.Frame{say(`{"a":{"type":"text","content":"b"}}`)}, 0},
		"unknown object":             {`{"type":"image","url":"u"} x`, []output.Frame{say(`{"type":"image","url":"u"} x`)}, 0},
		"an object behind a brace":   {`{ see {"type":"text","content":"a"}`, []output.Frame{say("{ see a")}, 0},
		"half an object, then one":   {`{"a": {"type":"text","content":"a"} oops`, []output.Frame{say(`{"a": a oops`)}, 0},
		"fence":                      {"Here:\n```json\n" + chart + "\n```\nDone.", []output.Frame{say("Here:\n"), show("chart", chartData), say("\nDone.")}, 0},
		"fence around several":       {"```\n{\"type\":\"text\",\"content\":\"a\"}\n" + tableText + "\n```", []output.Frame{say("a"), show("table", tableData)}, 0},
		"fence on one line":          {"```json {\"type\":\"text\",\"content\":\"a\"}```", []output.Frame{say("a")}, 0},
		"fence around code":          {"```go\nx := {1}\n```\n{\"type\":\"text\",\"content\":\"a\"}", []output.Frame{say("```go\nx := {1}\n```\na")}, 0},
		"fence around other objects": {"```json\n{\"a\":1}\n```\n" + chart, []output.Frame{say("```json\n{\"a\":1}\n```\n"), show("chart", chartData)}, 0},
		"no fence in mid-line":       {"x ```json\n" + chart + "\n```", []output.Frame{say("x ```json\n"), show("chart", chartData), say("\n```")}, 0},
		"inline code":                {"`a` ``b`` ```c", []output.Frame{say("`a` ``b`` ```c")}, 0},
		"cut off in text":            {`{"type":"text","content":"abc\ud83d`, []output.Frame{say("abc�")}, 1},
		"cut off in an escape":       {`{"type":"text","content":"abc\u00`, []output.Frame{say("abc")}, 1},
		"cut off after text":         {`{"type":"text","content":"abc"`, []output.Frame{say("abc")}, 1},
		"cut off before text":        {`x {"type":"text","cont`, []output.Frame{say("x ")}, 1},
		"cut off at the type":        {`x {"type": "tab`, []output.Frame{say("x ")}, 1},
		"cut off block":              {`x ` + chart[:40], []output.Frame{say("x ")}, 1},
		"a brace at the end":         {`x {`, []output.Frame{say("x {")}, 0},
		"text not closed":            {"{\"type\":\"text\",\"content\":\"a\"\n{\"type\":\"text\",\"content\":\"b\"}", []output.Frame{say("ab")}, 1},
		"text without content":       {`{"type":"text","content":7}x`, []output.Frame{say("x")}, 1},
		"chart of no type":           {strings.Replace(chart, "bar", "cake", 1) + "x", []output.Frame{say("x")}, 1},
		"chart without a key":        {strings.Replace(chart, `"b":2`, `"c":2`, 1), nil, 1},
		"chart without config":       {`{"type":"chart","chartType":"bar","data":[]}`, nil, 1},
		"chart row no object":        {strings.Replace(chart, `{"x":1,"b":2}`, `3`, 1), nil, 1},
		"table row too short":        {`{"type":"table","headers":["a","b"],"rows":[[1]]}`, nil, 1},
		"table without headers":      {`{"type":"table","rows":[[1]]}`, nil, 1},
		"timeline":                   {`{"type":"timeline","checkpoints":[{"id":"c","title":"T","date":5,"x":1}]}`, []output.Frame{show("timeline", `{"checkpoints":[{"id":"c","title":"T","date":5}]}`)}, 0},
		"timeline without a date":    {`{"type":"timeline","checkpoints":[{"id":"c","title":"T"}]}`, nil, 1},
		"newline in a block's title": {strings.Replace(chart, `"A"`, "\"A\nB\"", 1), []output.Frame{show("chart", strings.Replace(chartData, `"A"`, `"A\nB"`, 1))}, 0},
		"block with a mistake":       {`{"type":"chart","data":[1,2,],"t":"}"} {"type":"text","content":"a"}`, []output.Frame{say("a")}, 1},
		"block that never closes":    {`{"type":"chart" oops {"type":"text","content":"a"}`, []output.Frame{say("oops a")}, 1},
		"all rows":                   {`{"type":"entity_ref","entity":"task"}`, []output.Frame{show("entity_ref", task("t1", "t2"))}, 0},
		"rows by id":                 {`{"type":"entity_ref","entity":"task","ids":["t2","t9"]}`, []output.Frame{show("entity_ref", task("t2"))}, 0},
		"rows the model made up":     {`{"type":"entity_ref","entity":"task","ids":["t9"],"rows":[{"id":"t9"}]}`, nil, 1},
		"no rows":                    {`{"type":"entity_ref","entity":"note"}`, nil, 1},
		"no entity":                  {`{"type":"entity_ref","entity":"user"}`, nil, 1},
		"invalid UTF-8":              {"a\xffb{\"type\":\"text\",\"content\":\"\xe2\x82\"}\xe2", []output.Frame{say("a�b���")}, 0},
		"far too deep":               {strings.Repeat(`{"a":`, 70), []output.Frame{say(strings.Repeat(`{"a":`, 70))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := run(t, output.NewHome(rows), c.in)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.in, diff)
			}
			if len(warnings) != c.warn {
				t.Errorf("%q warns %q, want %d", c.in, warnings, c.warn)
			}
			for cut := range len(c.in) {
				again, _ := run(t, output.NewHome(rows), c.in, cut)
				if diff := cmp.Diff(got, again); diff != "" {
					t.Fatalf("%q cut at %d (-whole +cut):\n%s", c.in, cut, diff)
				}
			}
		})
	}
}

// TestNothingWithoutRows: a formatter that was given no rows resolves nothing, and says so.
func TestNothingWithoutRows(t *testing.T) {
	got, warnings := run(t, output.NewHome(nil), `{"type":"entity_ref","entity":"task"}`)
	if len(got) != 0 || len(warnings) != 1 {
		t.Errorf("got %v, warned %q", got, warnings)
	}
}

// TestTextIsSaidWhileItArrives: each byte of a content can be shown with the delta that brings it.
func TestTextIsSaidWhileItArrives(t *testing.T) {
	h := output.NewHome(nil)
	for _, step := range [][2]string{{`{"type":"te`, ""}, {`xt","content":"Hel`, "Hel"}, {`lo`, "lo"}, {` w\u00`, " w"}, {`e9`, "é"}, {`"}`, ""}} {
		got := ""
		for _, f := range h.Write(step[0]) {
			got += f.Text
		}
		if got != step[1] {
			t.Errorf("after %q: said %q, want %q", step[0], got, step[1])
		}
	}
}

var nasty = rapid.SliceOfN(rapid.SampledFrom([]string{
	`{`, `}`, `[`, `]`, `"`, `:`, `,`, `\`, `\u`, `d83d`, `\ude00`, "```", "`", "json", "\n", " ", "x", "é", "\xff", "\xe2", "😀",
	`{"type":"text","content":"`, `"}`, `{"type":"chart",`, `"type"`, `"content"`, `"text"`, `1`, `true`, `tru`, chart, tableText,
	`{"type":"entity_ref","entity":"task"}`, `{"type":"timeline"`, `{"a":1}`, `\n`,
}), 0, 30)

// TestCutsNeverMatter: the frames of a text are the same however it was cut.
func TestCutsNeverMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(nasty.Draw(t, "in"), "")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(in)), 0, 10).Draw(t, "cuts")
		slices.Sort(cuts)
		whole, warned := run(t, output.NewHome(rows), in)
		cut, warnedCut := run(t, output.NewHome(rows), in, cuts...)
		bytewise := make([]int, len(in))
		for i := range bytewise {
			bytewise[i] = i
		}
		bytes, _ := run(t, output.NewHome(rows), in, bytewise...)
		if diff := cmp.Diff(whole, cut) + cmp.Diff(whole, bytes) + cmp.Diff(warned, warnedCut); diff != "" {
			t.Fatalf("%q cut at %v:\n%s", in, cuts, diff)
		}
		plain, _ := run(t, output.NewPlain(), in, cuts...)
		if whole, _ := run(t, output.NewPlain(), in); cmp.Diff(whole, plain) != "" {
			t.Fatalf("plain %q cut at %v: %v and %v", in, cuts, whole, plain)
		}
	})
}

// TestNothingIsLost: what is said is the text between the objects and the contents of the objects, each
// character once, and every good block is shown, in order.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in strings.Builder
		var want []output.Frame
		prose := rapid.StringOfN(rapid.SampledFrom([]rune("ab {}é😀.\\\"")), 0, 8, -1)
		for range rapid.IntRange(0, 8).Draw(t, "pieces") {
			switch rapid.IntRange(0, 3).Draw(t, "piece") {
			case 0:
				content := rapid.String().Draw(t, "content")
				object, _ := json.Marshal(map[string]string{"type": "text", "content": content})
				in.Write(object)
				want = append(want, say(content))
			case 1:
				in.WriteString(chart)
				want = append(want, show("chart", chartData))
			case 2:
				in.WriteString("\n```json\n" + tableText + "\n```\n")
				want = append(want, show("table", tableData))
			default:
				text := "x" + prose.Draw(t, "prose") + "x"
				in.WriteString(text)
				want = append(want, say(text))
			}
		}
		got, warnings := run(t, output.NewHome(rows), in.String())
		if diff := cmp.Diff(squeeze(want), squeeze(got)); diff != "" || len(warnings) > 0 {
			t.Fatalf("%q warned %q (-want +got):\n%s", in.String(), warnings, diff)
		}
	})
}

// squeeze joins texts and takes the line breaks away, which may belong to fences.
func squeeze(frames []output.Frame) []output.Frame {
	var out []output.Frame
	for _, f := range frames {
		f.Text = strings.NewReplacer("\n", "", " ", "").Replace(f.Text)
		if f.Block != "" || f.Text != "" {
			out = append(out, f)
		}
	}
	return join(out)
}

// TestPlainTextIsItself: text without braces and fences comes out as it went in, byte for byte.
func TestPlainTextIsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.NewReplacer("{", "(", "`", "'").Replace(rapid.String().Draw(t, "in"))
		for _, f := range []formatter{output.NewHome(rows), output.NewPlain()} {
			got, _ := run(t, f, in)
			if in != "" && (len(got) != 1 || got[0].Text != in) {
				t.Fatalf("%q became %v", in, got)
			}
		}
	})
}

// TestBadInputCostsLittle: no text makes the formatter slow.
func TestBadInputCostsLittle(t *testing.T) {
	for _, in := range []string{`{"a":`, `{"a":[1,`, `{`, "`", ` `, `{"type":"chart",x`, `{"type":"text","content":"a" `, "```{", `{"a":"`} {
		in = strings.Repeat(in, 100_000/len(in))
		begin := time.Now()
		run(t, output.NewHome(rows), in)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%.20q… took %v", in, took)
		}
	}
}
