package kafka

import (
	"bytes"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// window holds the ids decided lately and their answers: all that were counted after the place from,
// and so all that are not stored yet.
type window struct {
	from    streams.CommandPlace
	byID    map[streams.CommandKey]*streams.AnswerRow
	queue   []held // in the order of the log
	flushed int    // how many of the queue are stored
	storing int    // or being stored
	max     int
}

type held struct {
	row   *streams.AnswerRow
	place streams.CommandPlace
	at    time.Time
}

func newWindow(from streams.CommandPlace, size int) *window {
	return &window{from: from, byID: map[streams.CommandKey]*streams.AnswerRow{}, max: size}
}

// find answers how a command was decided, if that was after from.
func (w *window) find(scope domain.Scope, id string) (*streams.AnswerRow, bool) {
	row, ok := w.byID[streams.CommandKey{Scope: scope, ID: id}]
	return row, ok
}

// covers reports whether an id that was not in the table when it held for known would be here had it been decided since.
func (w *window) covers(known streams.CommandPlace, era int) bool {
	return known.Era == era && !known.Before(w.from)
}

// add takes a counted commit's answer. One without scope and id is nobody's.
func (w *window) add(row streams.AnswerRow, place streams.CommandPlace, at time.Time) {
	row.Fingerprint = bytes.Clone(row.Fingerprint) // it may lie in a large buffer
	if row.CommandID != "" {
		w.byID[streams.CommandKey{Scope: row.Scope, ID: row.CommandID}] = &row
	}
	w.queue = append(w.queue, held{row: &row, place: place, at: at})
}

// unflushed is how many are not stored.
func (w *window) unflushed() int { return len(w.queue) - w.flushed }

// flush answers those that are not stored, and counts them as being stored.
func (w *window) flush() []streams.AnswerRow {
	var rows []streams.AnswerRow
	for _, h := range w.queue[w.storing:] {
		if h.row.CommandID != "" {
			rows = append(rows, *h.row)
		}
	}
	w.storing = len(w.queue)
	return rows
}

// stored says that what the last flush handed out is stored, and forgets what may be forgotten.
func (w *window) stored(now time.Time) {
	w.flushed = w.storing
	n := 0
	for n < w.flushed && (len(w.queue)-n > w.max || now.Sub(w.queue[n].at) > holdIDsFor) {
		row := w.queue[n].row
		w.from = w.queue[n].place
		delete(w.byID, streams.CommandKey{Scope: row.Scope, ID: row.CommandID})
		n++
	}
	if n > 0 {
		w.queue = append(w.queue[:0], w.queue[n:]...) // moves: a slice of a slice would keep what is forgotten
		clear(w.queue[len(w.queue):cap(w.queue)])
		w.flushed -= n
		w.storing -= n
	}
}
