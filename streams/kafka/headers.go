package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bytedance/sonic"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// The names of the headers. Scope and command id stand on commands, log and replies.
const (
	HeaderScope       = "scope"
	HeaderCommandID   = "command_id"
	HeaderMark        = "mark"         // log: what the acceptance rule looks at
	HeaderFingerprint = "fingerprint"  // log and replies: of the request that is answered; raw bytes
	HeaderOutcome     = "outcome"      // log and replies
	HeaderPlace       = "place"        // replies: era, partition and offset of the commit
	HeaderParks       = "parks"        // log: the command of this rejection is parked
	HeaderTrace       = tracing.Header // commands, log, live and feeds: the W3C traceparent of what appended it
)

// Headers is what the headers of a record on the log, or on the replies, say. A reader that only wants
// to know what counts and how a command ended never decodes a body.
type Headers struct {
	Mark streams.Mark // log only
	// Answer is a commit's outcome. On the log its era is the mark's, and whoever read the record adds
	// partition and offset; a reply carries all three. Heads hold one head for each stream. An empty
	// Scope and CommandID stand for a command whose own headers could not be read; an empty
	// Fingerprint for one whose body could not be, which so is the answer to every request of that id.
	Answer streams.AnswerRow
}

// ErrHeaders is the answer for headers that no version of this program wrote.
var ErrHeaders = errors.New("malformed record headers")

// wire copies strings, so that an answer that is kept does not keep the fetch that it came in.
var wire = sonic.Config{CopyString: true, ValidateString: true, CaseSensitive: true, SortMapKeys: true}.Froze()

type outcome struct {
	Rejected  *domain.Rejection `json:"rejected,omitempty"`
	Heads     []string          `json:"heads,omitempty"` // "version stream"
	Position  uint64            `json:"position,omitempty"`
	DecidedAt string            `json:"decided_at"`
}

// CommitHeaders are the headers of a commit. Position is that of its scope afterwards.
func CommitHeaders(c streams.Commit, position uint64) []kgo.RecordHeader {
	return append([]kgo.RecordHeader{markHeader(c.Mark())}, answerHeaders(AnswerOf(c, position))...)
}

// LeadHeaders are the headers of a lead or close record.
func LeadHeaders(m streams.Mark) []kgo.RecordHeader { return []kgo.RecordHeader{markHeader(m)} }

// ReplyHeaders are the headers of an answer to a repeated command. The row's fingerprint is that of the
// request it answers.
func ReplyHeaders(a streams.AnswerRow) []kgo.RecordHeader {
	place := fmt.Sprintf("%d %d %d", a.Era, a.Partition, a.Offset)
	return append(answerHeaders(a), kgo.RecordHeader{Key: HeaderPlace, Value: []byte(place)})
}

// AnswerOf is a commit as answers keep it. Position is that of its scope afterwards.
func AnswerOf(c streams.Commit, position uint64) streams.AnswerRow {
	a := streams.AnswerRow{
		Scope: c.Scope, CommandID: c.CommandID, Fingerprint: c.Fingerprint, Rejected: c.Rejected,
		Position: position, Era: c.Era, Partition: c.Place.Partition, Offset: c.Place.Offset, DecidedAt: c.DecidedAt,
	}
	for i, e := range c.Events {
		last := true
		for _, later := range c.Events[i+1:] {
			if later.Stream == e.Stream {
				last = false
				break
			}
		}
		if last {
			a.Heads = append(a.Heads, streams.Head{Stream: e.Stream, Version: e.Version})
		}
	}
	return a
}

func markHeader(m streams.Mark) kgo.RecordHeader {
	b := make([]byte, 0, 96)
	b = append(b, m.Sort...)
	b = strconv.AppendInt(append(b, ' '), int64(m.Era), 10)
	b = strconv.AppendInt(append(b, ' '), m.Lead, 10)
	b = append(append(b, ' '), m.Writer...)
	if m.Sort == streams.SortCommit {
		b = strconv.AppendInt(append(b, ' '), m.CommandOffset, 10)
		b = strconv.AppendInt(append(b, ' '), int64(m.After.Era), 10)
		b = strconv.AppendInt(append(b, ' '), m.After.Offset, 10)
	}
	return kgo.RecordHeader{Key: HeaderMark, Value: b}
}

func answerHeaders(a streams.AnswerRow) []kgo.RecordHeader {
	o := outcome{Rejected: a.Rejected, Position: a.Position, DecidedAt: a.DecidedAt}
	for _, h := range a.Heads {
		o.Heads = append(o.Heads, strconv.FormatUint(h.Version, 10)+" "+string(h.Stream))
	}
	value, err := wire.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return []kgo.RecordHeader{
		{Key: HeaderScope, Value: []byte(a.Scope)},
		{Key: HeaderCommandID, Value: []byte(a.CommandID)},
		{Key: HeaderFingerprint, Value: a.Fingerprint},
		{Key: HeaderOutcome, Value: value},
	}
}

// MarkOf reads only what the acceptance rule looks at. It answers ErrHeaders, wrapped, for anything that
// has no mark: a reader ignores such a record, which no writer wrote.
func MarkOf(headers []kgo.RecordHeader) (streams.Mark, error) {
	text, ok := find(headers, HeaderMark)
	if !ok {
		return streams.Mark{}, fmt.Errorf("%w: no %s", ErrHeaders, HeaderMark)
	}
	f := strings.Split(string(text), " ")
	m := streams.Mark{Sort: streams.Sort(f[0])}
	want := 4
	switch m.Sort {
	case streams.SortCommit:
		want = 7
	case streams.SortLead, streams.SortClose:
	default:
		return streams.Mark{}, fmt.Errorf("%w: sort %q", ErrHeaders, f[0])
	}
	if len(f) != want {
		return streams.Mark{}, fmt.Errorf("%w: %s of %d parts", ErrHeaders, HeaderMark, len(f))
	}
	var n numbers
	m.Era, m.Lead, m.Writer = int(n.read(f[1], 32)), n.read(f[2], 64), f[3]
	if m.Sort == streams.SortCommit {
		m.CommandOffset = n.read(f[4], 64)
		m.After = streams.CommandPlace{Era: int(n.read(f[5], 32)), Offset: n.read(f[6], 64)}
	}
	if n.err != nil {
		return streams.Mark{}, fmt.Errorf("%w: %s: %w", ErrHeaders, HeaderMark, n.err)
	}
	return m, nil
}

// ReadHeaders reads all of them: mark, and for a commit or a reply its answer.
func ReadHeaders(headers []kgo.RecordHeader) (Headers, error) {
	var h Headers
	place, reply := find(headers, HeaderPlace)
	if !reply {
		m, err := MarkOf(headers)
		if err != nil || m.Sort != streams.SortCommit {
			return Headers{Mark: m}, err
		}
		h.Mark, h.Answer.Era = m, m.Era
	} else {
		f := strings.Split(string(place), " ")
		if len(f) != 3 {
			return Headers{}, fmt.Errorf("%w: %s of %d parts", ErrHeaders, HeaderPlace, len(f))
		}
		var n numbers
		h.Answer.Era, h.Answer.Partition, h.Answer.Offset = int(n.read(f[0], 32)), int32(n.read(f[1], 32)), n.read(f[2], 64)
		if n.err != nil {
			return Headers{}, fmt.Errorf("%w: %s: %w", ErrHeaders, HeaderPlace, n.err)
		}
	}
	scope, _ := find(headers, HeaderScope)
	id, _ := find(headers, HeaderCommandID)
	fingerprint, _ := find(headers, HeaderFingerprint)
	text, ok := find(headers, HeaderOutcome)
	if !ok {
		return Headers{}, fmt.Errorf("%w: no %s", ErrHeaders, HeaderOutcome)
	}
	var o outcome
	if err := wire.Unmarshal(text, &o); err != nil {
		return Headers{}, fmt.Errorf("%w: %s: %w", ErrHeaders, HeaderOutcome, err)
	}
	a := &h.Answer
	a.Scope, a.CommandID, a.Fingerprint = domain.Scope(scope), string(id), fingerprint
	a.Rejected, a.Position, a.DecidedAt = o.Rejected, o.Position, o.DecidedAt
	for _, head := range o.Heads {
		version, stream, _ := strings.Cut(head, " ")
		n, err := strconv.ParseUint(version, 10, 63)
		if err != nil {
			return Headers{}, fmt.Errorf("%w: head %q", ErrHeaders, head)
		}
		a.Heads = append(a.Heads, streams.Head{Stream: domain.Stream(stream), Version: n})
	}
	return h, nil
}

// CommandHeaders are the headers of a command.
func CommandHeaders(scope domain.Scope, id string) []kgo.RecordHeader {
	return []kgo.RecordHeader{{Key: HeaderScope, Value: []byte(scope)}, {Key: HeaderCommandID, Value: []byte(id)}}
}

// traced adds a traceparent to headers, if there is one.
func traced(headers []kgo.RecordHeader, traceparent string) []kgo.RecordHeader {
	if traceparent == "" {
		return headers
	}
	return append(headers, kgo.RecordHeader{Key: HeaderTrace, Value: []byte(traceparent)})
}

// traceOf is the traceparent in headers, "" where there is none or one that is malformed.
func traceOf(headers []kgo.RecordHeader) string {
	text, ok := find(headers, HeaderTrace)
	if !ok {
		return ""
	}
	return tracing.Clean(string(text))
}

// find answers the first header of that name.
func find(headers []kgo.RecordHeader, name string) ([]byte, bool) {
	for i := range headers {
		if headers[i].Key == name {
			return headers[i].Value, true
		}
	}
	return nil, false
}

// numbers parses several and keeps the first error.
type numbers struct{ err error }

func (n *numbers) read(text string, bits int) int64 {
	v, err := strconv.ParseInt(text, 10, bits)
	if err != nil && n.err == nil {
		n.err = err
	}
	return v
}
