package rest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// A timeline's page; limit 0 is all of it, streamed.
const (
	defaultEntries = 200
	entriesAtOnce  = 500 // read from the database at a time
)

type entry struct {
	Seq  uint64 `json:"seq"`
	At   string `json:"at"`
	Kind string `json:"kind"`
	Item any    `json:"item"`
	Hash string `json:"hash"`
}

type window struct {
	Min  uint64 `json:"min_seq"`
	Max  uint64 `json:"max_seq"`
	Next uint64 `json:"next_seq"`
	// Pruned: entries before it were deleted.
	Pruned *uint64 `json:"pruned_before,omitempty"`
}

func windowOf(w events.Window) window {
	v := window{Min: w.Min, Max: w.Max, Next: w.Next}
	if w.Min > 1 {
		v.Pruned = &v.Min
	}
	return v
}

// span is what a timeline's answer says besides its entries.
type span struct {
	Direction string  `json:"direction"`
	Start     *uint64 `json:"start_seq"`
	End       *uint64 `json:"end_seq"`
	HasOlder  bool    `json:"has_older"`
	HasNewer  bool    `json:"has_newer"`
	Window    window  `json:"window"`
}

// fetch is a request for a part of a timeline.
type fetch struct {
	direction string
	seq       uint64
	limit     int
	steps     bool
	key       streams.StreamKey
	window    events.Window
}

// timelineView is a part of a timeline.
type timelineView struct {
	span
	Entries []entry `json:"entries"`
}

// GetTimeline answers a part of a thread's timeline, or all of it as a stream.
func (s *server) GetTimeline(ctx context.Context, r contract.GetTimelineRequestObject) (contract.GetTimelineResponseObject, error) {
	p := r.Params
	f := fetch{direction: string(or(p.Direction, contract.Tail)), seq: or(p.Seq, 0), steps: or(p.Steps, true), limit: or(p.Limit, defaultEntries)}
	if f.direction == "tail" && p.Seq != nil {
		return nil, invalid(wrong{Pointer: "seq", Detail: "belongs to before and after"})
	}
	if f.direction != "tail" && p.Seq == nil {
		return nil, invalid(wrong{Pointer: "seq", Detail: f.direction + " needs one"})
	}
	var err error
	if f.key, f.window, err = s.history(ctx, r.Thread, p.MinPosition); err != nil {
		return nil, err
	}
	if f.seq > f.window.Max {
		return nil, invalid(wrong{Pointer: "seq", Detail: fmt.Sprintf("%d does not exist yet; the newest is %d", f.seq, f.window.Max)})
	}
	if callOf(ctx).fresh(f.window.Max, p.IfNoneMatch) {
		return contract.GetTimeline304Response{}, nil
	}
	if f.limit == 0 {
		return streamed{ctx, s, f}, nil
	}
	entries, more, err := s.collect(ctx, f)
	if err != nil {
		return nil, err
	}
	return reply{http.StatusOK, timelineView{f.span(entries, more), entries}}, nil
}

// history finds a thread of the caller's and its window. It is found by its events, so a thread whose first
// event is there is there.
func (s *server) history(ctx context.Context, name string, minimum *string) (streams.StreamKey, events.Window, error) {
	if err := nameable(name); err != nil {
		return streams.StreamKey{}, events.Window{}, err
	}
	if err := s.await(ctx, minimum, modelEvents); err != nil {
		return streams.StreamKey{}, events.Window{}, err
	}
	key := streams.StreamKey{Scope: callOf(ctx).scope(), Stream: domain.NewStream("thread", name)}
	w, err := s.Events.Window(ctx, key)
	return key, w, err
}

// collect reads the entries of a page, and whether there is one more in its direction.
func (s *server) collect(ctx context.Context, f fetch) (entries []entry, more bool, err error) {
	entries = []entry{}
	o := s.opener(f.key.Scope)
	ascending := f.direction == "after"
	cursor := f.seq
	if f.direction == "tail" {
		cursor = f.window.Next
	}
	if ascending {
		cursor = max(cursor, max(f.window.Min, 1)-1)
	}
	for {
		var rows []streams.Recorded
		ask := min(f.limit-len(entries)+1, entriesAtOnce)
		if !f.steps {
			ask = max(ask, 50) // most rows are steps
		}
		if ascending {
			rows, err = s.Events.After(ctx, f.key, cursor, ask)
		} else if cursor > f.window.Min {
			rows, err = s.Events.Before(ctx, f.key, cursor, ask)
		}
		if err != nil {
			return nil, false, err
		}
		got := len(rows)
		for range rows {
			// From the cursor on: the first of an ascending page, the last of a descending one.
			r := rows[0]
			if ascending {
				rows = rows[1:]
			} else {
				r, rows = rows[len(rows)-1], rows[:len(rows)-1]
			}
			cursor = r.Version
			if r.Version > f.window.Max || r.Version < f.window.Min {
				got = 0 // committed after this answer's window, or a title that outlived what was pruned
				break
			}
			e, is, err := o.entry(ctx, r, f.steps)
			if err != nil {
				return nil, false, err
			}
			if !is {
				continue
			}
			if len(entries) == f.limit {
				more = true
				break
			}
			entries = append(entries, e)
		}
		if more || got < ask {
			break
		}
	}
	if !ascending {
		slices.Reverse(entries)
	}
	return entries, more, nil
}

// entry is an event's row; is says whether it is shown.
func (o *opener) entry(ctx context.Context, r streams.Recorded, steps bool) (e entry, is bool, err error) {
	kind, item, err := o.item(ctx, r)
	if err != nil {
		return entry{}, false, err
	}
	return entry{Seq: r.Version, At: r.At, Kind: kind, Item: item, Hash: hex.EncodeToString(r.Hash)}, steps || kind != kindStep, nil
}

// span says what lies around the entries.
func (f fetch) span(entries []entry, more bool) span {
	a := span{Direction: f.direction, Window: windowOf(f.window)}
	if len(entries) > 0 {
		a.Start, a.End = &entries[0].Seq, &entries[len(entries)-1].Seq
	}
	switch f.direction {
	case "tail":
		a.HasOlder = more
	case "before":
		a.HasOlder, a.HasNewer = more, f.seq > 0 && f.seq <= f.window.Max
	case "after":
		a.HasOlder, a.HasNewer = f.seq >= f.window.Min, more
	}
	if f.direction == "before" && f.seq == 0 {
		a.HasNewer = f.window.Max > 0
	}
	return a
}

// streamed is all of a timeline, written as it is read. What fails on the way breaks the connection off: half
// an answer must not look whole.
type streamed struct {
	ctx context.Context
	s   *server
	f   fetch
}

// VisitGetTimelineResponse writes it.
func (t streamed) VisitGetTimelineResponse(w http.ResponseWriter) error {
	s, f := t.s, t.f
	w.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w.WriteHeader(http.StatusOK)
	last, cursor := f.window.Max, uint64(0)
	switch f.direction {
	case "before":
		last = max(f.seq, 1) - 1
	case "after":
		cursor = f.seq
	}
	cursor = max(cursor, max(f.window.Min, 1)-1)
	var ends []entry
	if err := s.writeEntries(t.ctx, w, s.opener(f.key.Scope), f, cursor, last, &ends); err != nil {
		s.Log.WarnContext(t.ctx, "a timeline broke off", "error", err, "trace_id", callOf(t.ctx).traceID())
		panic(http.ErrAbortHandler)
	}
	tail, err := json.Marshal(f.span(ends, false))
	if err != nil {
		return err
	}
	_, err = w.Write(append([]byte("],"), append(tail[1:], '\n')...))
	return err
}

func (s *server) writeEntries(ctx context.Context, w http.ResponseWriter, o *opener, f fetch, cursor, last uint64, ends *[]entry) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteString(`{"entries":[`)
	for cursor < last {
		rows, err := s.Events.After(ctx, f.key, cursor, int(min(last-cursor, entriesAtOnce)))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("the events after %d of %s are gone", cursor, f.key.Stream)
		}
		for _, r := range rows {
			if r.Version != cursor+1 {
				return fmt.Errorf("the events after %d of %s were deleted meanwhile", cursor, f.key.Stream)
			}
			cursor = r.Version
			one, is, err := o.entry(ctx, r, f.steps)
			if err != nil {
				return err
			}
			if !is {
				continue
			}
			if len(*ends) > 0 {
				b.WriteByte(',')
			}
			if err := e.Encode(one); err != nil {
				return err
			}
			*ends = append((*ends)[:min(len(*ends), 1)], entry{Seq: one.Seq})
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
		b.Reset()
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
