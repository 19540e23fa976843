package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/cairnhq/cairn/cmd/chaos/faults"
	"github.com/cairnhq/cairn/cmd/chaos/load"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// report is what a run found.
type report struct {
	Seed    uint64          `json:"seed"`
	Brokers int             `json:"brokers"`
	Began   time.Time       `json:"began"`
	Seconds float64         `json:"seconds"`
	Rows    []*row          `json:"faults"`
	Verdict history.Verdict `json:"-"`
	Laws    map[string]int  `json:"laws"`
	Ended   []string        `json:"ended_by_themselves,omitempty"` // those that had a reason; the others are broken
	Notes   map[string]int  `json:"notes,omitempty"`
	Missed  []string        `json:"no_time_for,omitempty"`
	Faults  []string        `json:"broken,omitempty"`

	unhealed error
}

// row is what happened while one fault was there.
type row struct {
	Name       string  `json:"fault"`
	Injections int     `json:"injections"`
	Accepted   int     `json:"acknowledged"`
	Rejected   int     `json:"rejected"`
	Unknown    int     `json:"unknown"` // answers; all of them were asked again
	Refused    int     `json:"refused"`
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
	Longest    float64 `json:"longest_unavailability_s"`

	spans []span
}

type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.from) && t.Before(s.to) }

// quiet is a while without a fault, to compare with.
func (r *report) quiet(ctx context.Context, d time.Duration) {
	from := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	r.add("(none)", 0, span{from, time.Now()})
}

// add says that a fault was there for a while.
func (r *report) add(name string, hits int, s span) {
	i := slices.IndexFunc(r.Rows, func(other *row) bool { return other.Name == name })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &row{Name: name})
	}
	r.Rows[i].Injections += hits
	r.Rows[i].spans = append(r.Rows[i].spans, s)
}

// missed names the faults that had no turn.
func (r *report) missed(all []faults.Fault) {
	for _, f := range all {
		if !slices.ContainsFunc(r.Rows, func(w *row) bool { return w.Name == f.Name }) {
			r.Missed = append(r.Missed, f.Name)
		}
	}
}

// count fills the rows by what clients were told and what the log has.
func (r *report) count(l *load.Load, recorder *history.Recorder, log *history.Log) {
	commits := map[streams.CommandKey]int{}
	for _, partition := range log.Partitions {
		for _, e := range partition {
			if e.Counts && e.Commit != nil && e.Commit.CommandID != "" {
				commits[streams.CommandKey{Scope: e.Commit.Scope, ID: e.Commit.CommandID}]++
			}
		}
	}
	acknowledged := l.Acknowledged()
	for _, row := range r.Rows {
		for _, s := range row.spans {
			c := recorder.Counts(s.from, s.to)
			row.Accepted, row.Rejected = row.Accepted+c.Accepted, row.Rejected+c.Rejected
			row.Unknown, row.Refused = row.Unknown+c.Unknown, row.Refused+c.Refused
			row.Longest = max(row.Longest, l.Longest(s.from, s.to).Seconds())
			for _, a := range acknowledged {
				if !s.has(a.At) {
					continue
				}
				if commits[a.Key] == 0 {
					row.Lost++
				}
				row.Duplicated += max(0, commits[a.Key]-1)
			}
		}
	}
}

// ended tells how processes ended that were not told to, or not as they were told to.
func (r *report) ended(ends []stage.End) {
	faults, notes := stage.Unplanned(ends)
	r.Ended = notes
	for _, f := range faults {
		r.Faults = append(r.Faults, "nobody planned that "+f)
	}
}

// table prints the report for people.
func (r *report) table(out io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"fault", "injections", "acknowledged", "rejected", "unknown", "refused", "lost", "duplicated", "longest unavailability"})
	total := row{}
	for _, w := range r.Rows {
		t.AppendRow(table.Row{w.Name, w.Injections, w.Accepted, w.Rejected, w.Unknown, w.Refused, w.Lost, w.Duplicated, fmt.Sprintf("%.1f s", w.Longest)})
		total.Injections, total.Accepted, total.Rejected = total.Injections+w.Injections, total.Accepted+w.Accepted, total.Rejected+w.Rejected
		total.Unknown, total.Refused = total.Unknown+w.Unknown, total.Refused+w.Refused
		total.Lost, total.Duplicated, total.Longest = total.Lost+w.Lost, total.Duplicated+w.Duplicated, max(total.Longest, w.Longest)
	}
	t.AppendFooter(table.Row{"all", total.Injections, total.Accepted, total.Rejected, total.Unknown, total.Refused, total.Lost, total.Duplicated, fmt.Sprintf("%.1f s", total.Longest)})
	t.Render()
	fmt.Fprintf(out, "\n%s\n", r.Verdict.Table())
	for _, text := range r.Ended {
		fmt.Fprintln(out, "note:", text)
	}
	for _, text := range slices.Sorted(maps.Keys(r.Notes)) {
		fmt.Fprintf(out, "note: %d times: %s\n", r.Notes[text], text)
	}
	if len(r.Missed) > 0 {
		fmt.Fprintln(out, "note: there was no time for:", strings.Join(r.Missed, ", "))
	}
	fmt.Fprintf(out, "seed %d, %d brokers, %.0f s\n", r.Seed, r.Brokers, r.Seconds)
	if len(r.Faults) == 0 {
		fmt.Fprintln(out, "every promise was kept")
		return
	}
	fmt.Fprintln(out, "\nNOT KEPT:")
	for _, f := range r.Faults {
		fmt.Fprintln(out, " ", f)
	}
}
