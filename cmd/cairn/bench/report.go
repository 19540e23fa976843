// Package bench holds the benchmarks that `cairn bench` runs. Each starts what it needs in a scratch directory and
// measures the thing and its limit in turns in the same run. It checks nothing about correctness.
package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Report is what a benchmark found, in the JSON form that all of them have.
type Report struct {
	Bench   string   `json:"bench"`
	Machine Machine  `json:"machine"`
	Figures []Figure `json:"figures"`
}

// Machine is where it was measured.
type Machine struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	CPU       string `json:"cpu,omitempty"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
	Go        string `json:"go"`
}

// Figure is one number. Value and Limit are medians of the turns.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Low and High are the spread of Value over the turns.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Limit is what Value is held against, measured in turns with it; LimitIs says what that is.
	Limit   float64 `json:"limit,omitempty"`
	LimitIs string  `json:"limit_is,omitempty"`
	// Ratio is the median of value/limit over the pairs of turns.
	Ratio float64 `json:"ratio,omitempty"`
	// Goal is for Ratio, or for Value if there is no limit: "at least" or "at most".
	Goal   float64 `json:"goal,omitempty"`
	GoalIs string  `json:"goal_is,omitempty"`
	Met    *bool   `json:"met,omitempty"`
}

// The directions of a goal.
const (
	AtLeast = "at least"
	AtMost  = "at most"
)

// NewFigure makes a figure of the values of all turns, and of the limits measured beside each (or none).
func NewFigure(name, unit string, values, limits []float64, limitIs string) Figure {
	f := Figure{Name: name, Unit: unit, Value: Median(values), Low: slices.Min(values), High: slices.Max(values)}
	if len(limits) == 0 {
		return f
	}
	ratios := make([]float64, min(len(values), len(limits)))
	for i := range ratios {
		ratios[i] = values[i] / limits[i]
	}
	f.Limit, f.LimitIs, f.Ratio = Median(limits), limitIs, Median(ratios)
	return f
}

// Aim sets the goal of a figure and says whether it is met.
func (f Figure) Aim(goalIs string, goal float64) Figure {
	held := f.Ratio
	if f.LimitIs == "" {
		held = f.Value
	}
	met := held >= goal
	if goalIs == AtMost {
		met = held <= goal
	}
	f.Goal, f.GoalIs, f.Met = goal, goalIs, &met
	return f
}

// Median is the middle value, the lower one of two.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// Met reports whether every goal is met.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Met != nil && !*f.Met })
}

// Table prints the report for people.
func (r Report) Table(w io.Writer) {
	fmt.Fprintf(w, "%s on %s, %d cores, %s\n", r.Bench, cmp.Or(r.Machine.CPU, r.Machine.Arch), r.Machine.Cores, r.Machine.Go)
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"figure", "median", "spread", "unit", "limit", "ratio", "goal", "met"})
	for _, f := range r.Figures {
		row := table.Row{f.Name, number(f.Value), number(f.Low) + " – " + number(f.High), f.Unit, "", "", "", ""}
		if f.LimitIs != "" {
			row[4], row[5] = number(f.Limit)+" "+f.LimitIs, strconv.FormatFloat(f.Ratio, 'f', 2, 64)
		}
		if f.Met != nil {
			row[6], row[7] = f.GoalIs+" "+strconv.FormatFloat(f.Goal, 'f', -1, 64), map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		t.AppendRow(row)
	}
	t.Render()
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

// ThisMachine describes where the program runs.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.CPU = procField("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryMiB = kib >> 10
	}
	return m
}

// procField is the first value of a name in a file of /proc, empty where there is none.
func procField(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
