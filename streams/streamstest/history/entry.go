package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Entry is one record of the log, as the checker understands it.
type Entry struct {
	Partition int32
	Offset    int64
	// Digest covers key, headers and value.
	Digest [sha256.Size]byte
	Mark   streams.Mark
	// Stray says that it has no mark: no writer wrote it, and every reader passes it.
	Stray bool
	// Counts is what the acceptance rule says of it.
	Counts bool
	// Broken says why a record that has a mark can't be read, or where it contradicts itself.
	Broken string
	// Commit is set for a commit, sealed bytes left out. Of one whose body can't be read it is what the headers say.
	Commit *streams.Commit
	// unread are the streams of a commit whose body can't be read.
	unread []domain.Stream
	// sealed are the sealed bytes of its events, one for each.
	sealed [][]byte
	// Events are the digests of the commit's events as they stand in the log, sealed bytes and all.
	Events [][sha256.Size]byte
	// Position is that of the scope afterwards, as the headers give it, from which askers answer.
	Position uint64
}

type body struct {
	V             int               `json:"v"`
	Kind          string            `json:"kind"`
	Era           int               `json:"era"`
	Lead          int64             `json:"lead"`
	Writer        string            `json:"writer"`
	CommandOffset int64             `json:"command_offset"`
	After         [2]int64          `json:"after"`
	Scope         string            `json:"scope"`
	CommandID     string            `json:"command_id"`
	Fingerprint   []byte            `json:"fingerprint"`
	DecidedAt     string            `json:"decided_at"`
	Actor         json.RawMessage   `json:"actor"`
	CorrelationID string            `json:"correlation_id"`
	CausationID   string            `json:"causation_id"`
	Rejected      *domain.Rejection `json:"rejected"`
	Events        []json.RawMessage `json:"events"`
}

type event struct {
	ID         string          `json:"id"`
	Stream     string          `json:"stream"`
	Version    uint64          `json:"version"`
	Position   uint64          `json:"position"`
	Type       string          `json:"type"`
	Schema     int             `json:"schema"`
	Data       json.RawMessage `json:"data"`
	Sealed     []byte          `json:"sealed"`
	Key        int             `json:"key"`
	SealDigest []byte          `json:"seal_digest"`
	Hash       []byte          `json:"hash"`
}

// entry reads one record, with encoding/json and not with the product's codec.
func entry(r *kgo.Record) Entry {
	e := Entry{Partition: r.Partition, Offset: r.Offset, Digest: digest(r)}
	text, ok := header(r, kafka.HeaderMark)
	if !ok {
		e.Stray = true
		return e
	}
	var err error
	if e.Mark, err = mark(text); err != nil {
		e.Stray = true
		return e
	}
	var b body
	if err := json.Unmarshal(r.Value, &b); err != nil || b.V != 1 {
		return e.unreadable(r, fmt.Sprintf("format %d: %v", b.V, err))
	}
	said := streams.Mark{Sort: streams.Sort(b.Kind), Era: b.Era, Lead: b.Lead, Writer: b.Writer}
	if said.Sort == streams.SortCommit {
		said.CommandOffset, said.After = b.CommandOffset, streams.CommandPlace{Era: int(b.After[0]), Offset: b.After[1]}
	}
	if said != e.Mark {
		return e.unreadable(r, fmt.Sprintf("its headers say %+v, its body %+v", e.Mark, said))
	}
	if said.Sort == streams.SortCommit {
		if e.Commit, err = b.commit(&e); err != nil {
			return e.unreadable(r, err.Error())
		}
		e.Broken = e.headers(r)
		e.Commit.Trace, _ = header(r, kafka.HeaderTrace)
	}
	return e
}

// unreadable takes what the headers say for a body that can't be read.
func (e Entry) unreadable(r *kgo.Record, why string) Entry {
	e.Broken = why
	if e.Mark.Sort != streams.SortCommit {
		return e
	}
	h, err := kafka.ReadHeaders(r.Headers)
	if err != nil {
		return e
	}
	a := h.Answer
	e.Position, e.Events = a.Position, nil
	e.Commit = &streams.Commit{
		Era: e.Mark.Era, Lead: e.Mark.Lead, Writer: e.Mark.Writer, CommandOffset: e.Mark.CommandOffset, After: e.Mark.After,
		Scope: a.Scope, CommandID: a.CommandID, Fingerprint: a.Fingerprint, DecidedAt: a.DecidedAt, Rejected: a.Rejected,
		Place: streams.Place{Partition: e.Partition, Offset: e.Offset},
	}
	e.unread = []domain.Stream{}
	for _, head := range a.Heads {
		e.unread = append(e.unread, head.Stream)
	}
	return e
}

func (b *body) commit(e *Entry) (*streams.Commit, error) {
	c := &streams.Commit{
		Era: b.Era, Lead: b.Lead, Writer: b.Writer, CommandOffset: b.CommandOffset, After: e.Mark.After,
		Scope: domain.Scope(b.Scope), CommandID: b.CommandID, Fingerprint: b.Fingerprint, DecidedAt: b.DecidedAt,
		Actor: raw(b.Actor), CorrelationID: b.CorrelationID, CausationID: b.CausationID, Rejected: b.Rejected,
		Place: streams.Place{Partition: e.Partition, Offset: e.Offset},
	}
	for i, text := range b.Events {
		var v event
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		e.Events, e.sealed = append(e.Events, sha256.Sum256(text)), append(e.sealed, v.Sealed)
		c.Events = append(c.Events, streams.Recorded{
			ID: v.ID, Scope: c.Scope, Stream: domain.Stream(v.Stream), Version: v.Version, Position: v.Position,
			Type: v.Type, Schema: v.Schema, At: c.DecidedAt, Actor: c.Actor, Data: raw(v.Data),
			Key: v.Key, SealDigest: v.SealDigest, Hash: v.Hash,
			CommandID: c.CommandID, CorrelationID: c.CorrelationID, CausationID: c.CausationID, Era: c.Era,
			Place: streams.Place{Partition: e.Partition, Offset: e.Offset, Index: i},
		})
	}
	return c, nil
}

func raw(m json.RawMessage) json.RawMessage {
	if bytes.Equal(m, []byte("null")) {
		return nil
	}
	return m
}

// headers says where what askers read differs from what the commit says, and takes the position from there.
func (e *Entry) headers(r *kgo.Record) string {
	h, err := kafka.ReadHeaders(r.Headers)
	if err != nil {
		return err.Error()
	}
	c, a := e.Commit, h.Answer
	e.Position = a.Position
	switch {
	case string(r.Key) != string(c.Scope), a.Scope != c.Scope, a.CommandID != c.CommandID, !bytes.Equal(a.Fingerprint, c.Fingerprint):
		return fmt.Sprintf("key or headers name another command than %s of %s", c.CommandID, c.Scope)
	case a.DecidedAt != c.DecidedAt:
		return "headers and body were decided at different times"
	case !sameRejection(a.Rejected, c.Rejected):
		return fmt.Sprintf("the headers answer %v, the body %v", a.Rejected, c.Rejected)
	case c.Rejected != nil && len(c.Events) > 0:
		return "a rejection with events"
	case len(c.Events) > 0 && c.Events[len(c.Events)-1].Position != a.Position:
		return fmt.Sprintf("the headers answer position %d, the body ends at %d", a.Position, c.Events[len(c.Events)-1].Position)
	case !sameHeads(a.Heads, heads(c)):
		return fmt.Sprintf("the headers answer %v, the body %v", a.Heads, heads(c))
	}
	return ""
}

func sameRejection(a, b *domain.Rejection) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Reason == b.Reason && maps.Equal(a.Numbers, b.Numbers)
}

// heads are the streams of a commit and their versions afterwards.
func heads(c *streams.Commit) map[domain.Stream]uint64 {
	all := map[domain.Stream]uint64{}
	for _, v := range c.Events {
		all[v.Stream] = v.Version
	}
	return all
}

func sameHeads(told []streams.Head, in map[domain.Stream]uint64) bool {
	if len(told) != len(in) {
		return false
	}
	for _, h := range told {
		if in[h.Stream] != h.Version {
			return false
		}
	}
	return true
}

// mark reads "sort era lead writer [command_offset after_era after_offset]".
func mark(text string) (streams.Mark, error) {
	f := strings.Split(text, " ")
	m := streams.Mark{Sort: streams.Sort(f[0])}
	want := map[streams.Sort]int{streams.SortLead: 4, streams.SortClose: 4, streams.SortCommit: 7}[m.Sort]
	if len(f) != want {
		return m, fmt.Errorf("a mark of %d parts", len(f))
	}
	var failed error
	number := func(i int) int64 {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			failed = err
		}
		return n
	}
	m.Era, m.Lead, m.Writer = int(number(1)), number(2), f[3]
	if m.Sort == streams.SortCommit {
		m.CommandOffset, m.After = number(4), streams.CommandPlace{Era: int(number(5)), Offset: number(6)}
	}
	return m, failed
}

func header(r *kgo.Record, name string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// digest covers everything a writer wrote, each part with its length.
func digest(r *kgo.Record) [sha256.Size]byte {
	var b []byte
	part := func(p []byte) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(p))), p...) }
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		part([]byte(h.Key))
		part(h.Value)
	}
	return sha256.Sum256(b)
}
