package history_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

const ann domain.Scope = "user-ann"

// plot writes a log as a correct writer does, so that a test can plant one fault in it.
type plot struct {
	t       *testing.T
	records []*kgo.Record
	after   streams.CommandPlace
	lead    int64
	writer  string
	now     time.Time

	positions map[domain.Scope]uint64
	versions  map[streams.StreamKey]uint64
	hashes    map[streams.StreamKey][]byte
	// commands is their topic. Nil: nobody read it.
	commands []*kgo.Record
	era      int
	// change is applied to the next commit before it is encoded.
	change func(*streams.Commit)
	// hashBefore is for who plants a fault.
	hashBefore []byte
}

func newPlot(t *testing.T) *plot {
	p := &plot{
		t: t, era: 1, after: streams.CommandPlace{Offset: -1}, now: time.Unix(1_800_000_000, 0).UTC(),
		positions: map[domain.Scope]uint64{}, versions: map[streams.StreamKey]uint64{}, hashes: map[streams.StreamKey][]byte{},
	}
	p.leads("w1")
	return p
}

func (p *plot) append(key string, headers []kgo.RecordHeader, value []byte) *kgo.Record {
	r := &kgo.Record{Topic: "cairn.log", Key: []byte(key), Headers: headers, Value: value, Offset: int64(len(p.records))}
	p.records = append(p.records, r)
	return r
}

// chain hashes a changed commit's events anew.
func (p *plot) chain(c *streams.Commit) {
	for i := range c.Events {
		e := &c.Events[i]
		prev := p.hashBefore
		if prev == nil {
			prev = codec.Genesis(e.Stream)
		}
		e.Hash = codec.Chain(prev, *e)
		p.hashes[streams.StreamKey{Scope: c.Scope, Stream: e.Stream}] = e.Hash
	}
}

const time10 = 10 * time.Second

func of(stream domain.Stream) streams.StreamKey { return streams.StreamKey{Scope: ann, Stream: stream} }

func setHeader(r *kgo.Record, name, value string) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			r.Headers[i].Value = []byte(value)
		}
	}
}

// decided is the time in a commit.
func decided(r *kgo.Record) string {
	c, err := codec.DecodeCommit(r.Value)
	if err != nil {
		panic(err)
	}
	return c.DecidedAt
}

func (p *plot) leads(writer string) {
	p.claim(writer, codec.KindLead)
}

func (p *plot) claim(writer, kind string) {
	p.lead++
	p.writer = writer
	l := codec.Lead{Kind: kind, Era: p.era, Lead: p.lead, Writer: writer, At: p.now.Format(streams.TimeLayout)}
	value, err := codec.EncodeLead(l)
	if err != nil {
		p.t.Fatal(err)
	}
	p.append("", kafka.LeadHeaders(streams.Mark{Sort: streams.Sort(kind), Era: p.era, Lead: p.lead, Writer: writer}), value)
}

// commit appends the commit of a request; each event is a stream and what it says.
func (p *plot) commit(scope domain.Scope, request string, events ...domain.Stream) *streams.Commit {
	return p.decide(scope, request, nil, events...)
}

func (p *plot) reject(scope domain.Scope, request, code string) *streams.Commit {
	return p.decide(scope, request, &domain.Rejection{Code: code, Reason: "no"})
}

func (p *plot) decide(scope domain.Scope, request string, no *domain.Rejection, events ...domain.Stream) *streams.Commit {
	p.now = p.now.Add(time.Second)
	next := p.after.Offset + 1
	if p.after.Era != p.era { // of another topic of commands
		next = 0
	}
	c := &streams.Commit{
		Era: p.era, Lead: p.lead, Writer: p.writer, CommandOffset: next, After: p.after,
		Scope: scope, CommandID: streams.CommandID(scope, request), Fingerprint: []byte("f"),
		DecidedAt: p.now.Format(streams.TimeLayout), Actor: json.RawMessage(`{"kind":"user"}`), Rejected: no,
	}
	for i, s := range events {
		key := streams.StreamKey{Scope: scope, Stream: s}
		p.positions[scope]++
		p.versions[key]++
		prev := p.hashes[key]
		if prev == nil {
			prev = codec.Genesis(s)
		}
		e := streams.Recorded{
			ID: streams.EventID(c.CommandID, i), Scope: scope, Stream: s, Version: p.versions[key], Position: p.positions[scope],
			Type: "tally.added", Schema: 1, At: c.DecidedAt, Actor: c.Actor, Data: json.RawMessage(`{"by":1,"x":"<&>"}`),
			Sealed: []byte("sealed"), Key: 1, SealDigest: []byte("digest"),
		}
		e.Hash = codec.Chain(prev, e)
		p.hashes[key] = e.Hash
		c.Events = append(c.Events, e)
	}
	if p.change != nil {
		p.change(c)
		p.change = nil
	}
	value, err := codec.EncodeCommit(*c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.after = streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset}
	position := p.positions[scope]
	if n := len(c.Events); n > 0 {
		position = c.Events[n-1].Position
	}
	headers := kafka.CommitHeaders(*c, position)
	if c.Trace != "" {
		headers = append(headers, kgo.RecordHeader{Key: kafka.HeaderTrace, Value: []byte(c.Trace)})
	}
	r := p.append(string(scope), headers, value)
	codec.Locate(c, 0, r.Offset)
	return c
}

// answer is what an asker tells of a commit.
func (p *plot) answer(c *streams.Commit) streams.Answer {
	row := kafka.AnswerOf(*c, p.positions[c.Scope])
	at, err := time.Parse(streams.TimeLayout, c.DecidedAt)
	if err != nil {
		p.t.Fatal(err)
	}
	return streams.Answer{
		CommandID: c.CommandID, Heads: row.Heads, DecidedAt: at,
		Position: streams.Position{Scope: c.Scope, Position: row.Position, Era: c.Era, Offset: c.Place.Offset},
	}
}

func (p *plot) log() *history.Log {
	l := history.NewLog(1, p.records...)
	if p.commands != nil {
		l.Commands = history.NewCommands(p.era, 1, p.commands...)
	}
	return l
}

// wish appends a command to the topic of commands.
func (p *plot) wish(request string) *kgo.Record {
	r := &kgo.Record{
		Topic: "cairn.commands", Key: []byte(ann), Value: []byte("sealed"), Offset: int64(len(p.commands)),
		Headers: kafka.CommandHeaders(ann, streams.CommandID(ann, request)),
	}
	p.commands = append(p.commands, r)
	return r
}

// both appends a command and decides it.
func (p *plot) both(request string) {
	p.wish(request)
	p.commit(ann, request, "tally-x")
}

// nobodys decides a command that names nobody, so many commands further on than the next.
func (p *plot) nobodys(skipped int64) {
	p.change = func(c *streams.Commit) { c.Scope, c.CommandID, c.CommandOffset = "", "", c.CommandOffset+skipped }
	p.decide("", "", &domain.Rejection{Code: domain.CodeInternal, Reason: "no"})
}

// skips has the next commit decide a later command: so many between are repeats, or passed over.
func (p *plot) skips(n int64) { p.change = func(c *streams.Commit) { c.CommandOffset += n } }

// asked records a request that was answered at once.
func asked(rec *history.Recorder, p *plot, request string, events ...domain.Stream) *streams.Commit {
	op := rec.Invoke("client", request1(request))
	c := p.commit(ann, request, events...)
	op.Accepted(p.answer(c))
	return c
}

func request1(request string) history.Request {
	return history.Request{Scope: ann, CommandID: streams.CommandID(ann, request), Fingerprint: request}
}

func judge(e history.Evidence) history.Verdict {
	if len(e.Logs) == 1 {
		e.Logs = append(e.Logs, e.Logs[0])
	}
	return history.Check(e)
}

// found fails unless exactly the laws given were broken.
func found(t *testing.T, v history.Verdict, laws ...history.Law) {
	t.Helper()
	want := map[history.Law]bool{}
	for _, l := range laws {
		want[l] = true
	}
	for _, l := range history.Laws() {
		if got := len(v.Broken(l)) > 0; got != want[l] {
			t.Errorf("%s broken: %v, want %v\n%v", l, got, want[l], fmt.Sprint(v.Err()))
		}
	}
}
