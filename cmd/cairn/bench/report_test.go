package bench_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/cmd/cairn/bench"
)

// A ratio is the median over pairs of turns, so that a slow moment of the machine weighs on both sides alike.
func TestAFigureIsHeldAgainstTheTurnBesideIt(t *testing.T) {
	f := bench.NewFigure("x", "asks/s", []float64{50, 5, 60, 55, 45}, []float64{100, 10, 100, 100, 100}, "direct")
	if f.Value != 50 || f.Low != 5 || f.High != 60 || f.Limit != 100 || f.Ratio != 0.5 {
		t.Fatalf("got %+v", f)
	}
	for _, c := range []struct {
		is   string
		goal float64
		met  bool
	}{{bench.AtLeast, 0.5, true}, {bench.AtLeast, 0.51, false}, {bench.AtMost, 0.5, true}, {bench.AtMost, 0.49, false}} {
		aimed := f.Aim(c.is, c.goal)
		if *aimed.Met != c.met || (bench.Report{Figures: []bench.Figure{f, aimed}}).Met() != c.met {
			t.Errorf("%s %v: met is %v", c.is, c.goal, *aimed.Met)
		}
	}
}

func TestAReportHasTheCommonForm(t *testing.T) {
	r := bench.Report{Bench: "write", Machine: bench.ThisMachine(), Figures: []bench.Figure{
		bench.NewFigure("x", "ms", []float64{1}, []float64{2}, "direct").Aim(bench.AtMost, 1),
	}}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"bench":"write"`, `"machine":{`, `"figures":[{`, `"limit":2`, `"ratio":0.5`, `"goal":1`, `"met":true`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	var out bytes.Buffer
	r.Table(&out)
	if !strings.Contains(out.String(), "at most 1") {
		t.Errorf("the table is %s", out.String())
	}
}
