package history

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Unavailable is the longest stretch in [from, to) in which somebody waited and nobody was told a decision, among the
// requests that where picks (nil: all). Two zero times mean the whole history.
func (r *Recorder) Unavailable(from, to time.Time, where func(Request) bool) time.Duration {
	ops, _, _ := r.snapshot()
	var begun, ended, told []time.Time
	for i := range ops {
		o := &ops[i]
		if where != nil && !where(o.request) {
			continue
		}
		begun = append(begun, o.from)
		if o.ending != pending {
			ended = append(ended, o.to)
		}
		if o.ending == accepted || o.ending == rejected {
			told = append(told, o.to)
		}
	}
	if len(begun) == 0 {
		return 0
	}
	for _, times := range [][]time.Time{begun, ended, told} {
		slices.SortFunc(times, time.Time.Compare)
	}
	if from.IsZero() {
		from = begun[0]
	}
	if to.IsZero() {
		to = begun[len(begun)-1]
		if n := len(ended); n > 0 && ended[n-1].After(to) {
			to = ended[n-1]
		}
	}
	var longest time.Duration
	last := from
	for _, at := range append(told, to) {
		if at.Before(from) {
			continue
		}
		if at.After(to) {
			at = to
		}
		longest = max(longest, at.Sub(waits(begun, ended, last, at)))
		last = at
	}
	return longest
}

// waits is when the first wait after since begins, at the latest until.
func waits(begun, ended []time.Time, since, until time.Time) time.Time {
	upTo := func(times []time.Time) int {
		n, _ := slices.BinarySearchFunc(times, since, func(t, since time.Time) int {
			if t.After(since) {
				return 1
			}
			return -1
		})
		return n
	}
	n := upTo(begun)
	switch {
	case n > upTo(ended):
		return since
	case n < len(begun) && begun[n].Before(until):
		return begun[n]
	default:
		return until
	}
}

// line is an operation as Dump writes it.
type line struct {
	Client  string    `json:"client"`
	What    string    `json:"what,omitempty"`
	Scope   string    `json:"scope"`
	ID      string    `json:"id"`
	Invoked int64     `json:"invoked"`
	Ended   int64     `json:"ended,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to,omitzero"`
	Told    string    `json:"told"`
}

// Dump writes the operations, one JSON object a line, in the order in which they began: what to look at beside a fault.
func (r *Recorder) Dump(w io.Writer) error {
	ops, _, _ := r.snapshot()
	enc := json.NewEncoder(w)
	for i := range ops {
		o := &ops[i]
		l := line{
			Client: o.client, What: o.request.What, Scope: string(o.request.Scope), ID: o.request.CommandID,
			Invoked: o.invoked, Ended: o.ended, From: o.from, To: o.to, Told: o.ending.String(),
		}
		switch o.ending {
		case accepted, rejected:
			l.Told = o.told()
		case unknown, refused:
			l.Told += fmt.Sprint(": ", o.err)
		case pending:
		}
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// String names an ending.
func (e ending) String() string {
	return [...]string{"pending", "accepted", "rejected", "unknown", "refused"}[e]
}
