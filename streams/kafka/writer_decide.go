package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// inFlight is a decided command whose commit was not read back yet.
type inFlight struct {
	mark    streams.Mark
	answer  streams.AnswerRow
	scope   scopeState // afterwards
	changes []change
	repeats []streams.AnswerRow // answers that go out when it counts
	parked  *kgo.Record
	alarm   error
	last    bool // of its batch
	at      time.Time
	append  trace.Span // nil: none
}

type change struct {
	key   streams.StreamKey
	state streamState
}

// errNotLoaded says that a command needs what the book does not know: the rest of the batch is looked up again.
var errNotLoaded = errors.New("not loaded")

// needs names what the commands of a batch need and the book does not know.
func (t *term) needs(batch []wish) streams.Lookup {
	var l lookup
	for i := range batch {
		a := &batch[i]
		if a.scope == "" {
			continue
		}
		l.scope(t.book, a.scope)
		if t.mustAsk(a) {
			l.command(streams.CommandKey{Scope: a.scope, ID: a.id})
		}
		if a.fault == nil {
			for _, s := range a.reads {
				l.stream(t.book, streams.StreamKey{Scope: a.scope, Stream: s})
			}
		}
	}
	return l.Lookup
}

// mustAsk reports whether only the table can tell whether a command was decided before.
func (t *term) mustAsk(a *wish) bool {
	if a.row != nil || t.book.ids.covers(a.known, t.config.Topics.CurrentEra()) {
		return false
	}
	_, held := t.book.ids.find(a.scope, a.id)
	return !held && t.flying(a) == nil
}

// flying is the commit in flight of the same command.
func (t *term) flying(a *wish) *inFlight {
	if safety.Off(safety.IDsInFlight) {
		return nil
	}
	return t.deciding[streams.CommandKey{Scope: a.scope, ID: a.id}]
}

// found notes what the table said of the batch's ids.
func (t *term) found(batch []wish, s streams.Snapshot, asked []streams.CommandKey) {
	rows := make(map[streams.CommandKey]*streams.AnswerRow, len(s.Answers))
	for i := range s.Answers {
		rows[streams.CommandKey{Scope: s.Answers[i].Scope, ID: s.Answers[i].CommandID}] = &s.Answers[i]
	}
	looked := make(map[streams.CommandKey]bool, len(asked))
	for _, key := range asked {
		looked[key] = true
	}
	for i := range batch {
		a := &batch[i]
		if key := (streams.CommandKey{Scope: a.scope, ID: a.id}); looked[key] {
			a.row = rows[key]
			// The table may hold for an older era yet, which is as good as the newest: nothing was decided in this one.
			a.known = s.Checkpoint.Acceptance.After
			a.known.Era = t.config.Topics.CurrentEra()
			if s.Checkpoint.Acceptance.After.Era != a.known.Era {
				a.known.Offset = -1
			}
		}
	}
}

// decide decides one command, or finds that it was decided before. It answers the record to append, or none.
func (t *term) decide(a *wish) (*kgo.Record, error) {
	if a.scope != "" {
		if t.mustAsk(a) {
			return nil, errNotLoaded
		}
		if !safety.Off(safety.RememberedIDs) && t.repeated(a) {
			return nil, nil
		}
	}
	c := streams.Commit{
		Era: t.config.Topics.CurrentEra(), Lead: t.lead, Writer: t.id, CommandOffset: a.record.Offset, After: t.after,
		Scope: a.scope, CommandID: a.id, Fingerprint: a.body.Fingerprint,
	}
	p := &inFlight{at: time.Now()}
	if a.scope != "" {
		scope, ok := t.book.scopes.get(a.scope)
		if !ok {
			return nil, errNotLoaded
		}
		c.Actor, c.CausationID = codec.EncodeActor(a.body.Actor), a.body.CausationID
		c.CorrelationID = a.body.CorrelationID
		if c.CorrelationID == "" {
			c.CorrelationID = a.id
		}
		p.scope = scope
	}
	c.DecidedAt = max(p.scope.decidedAt, t.config.Now().UTC().Format(streams.TimeLayout))
	p.scope.decidedAt = c.DecidedAt

	err := t.events(a, &c, p)
	var value []byte
	if err == nil && c.Rejected == nil {
		if value, err = codec.EncodeCommit(c); err == nil && len(value) > maxCommitBytes {
			err = tooLarge(len(value))
		}
	}
	if errors.Is(err, errNotLoaded) {
		return nil, err
	}
	if err != nil {
		t.refuse(a, &c, p, err)
	}
	if value == nil || c.Rejected != nil {
		if value, err = codec.EncodeCommit(c); err != nil {
			return nil, err
		}
	}
	return t.fly(a, c, p, value), nil
}

// tooLarge is a commit over the limit.
type tooLarge int

// Error says how large.
func (n tooLarge) Error() string { return fmt.Sprintf("its commit has %d bytes", int(n)) }

// refuse turns what can never work into a rejection without content, to be parked and reported.
func (t *term) refuse(a *wish, c *streams.Commit, p *inFlight, err error) {
	c.Events, p.changes = nil, nil
	if a.scope != "" {
		before, _ := t.book.scopes.get(a.scope)
		p.scope = scopeState{position: before.position, decidedAt: c.DecidedAt, erased: before.erased}
	}
	c.Rejected = &domain.Rejection{Code: domain.CodeInternal, Reason: "the command could not be decided; it was kept for examination"}
	var size tooLarge
	if errors.As(err, &size) {
		c.Rejected = &domain.Rejection{
			Code: domain.CodeTooLarge, Reason: "the events of this command are too large",
			Numbers: map[string]int64{"bytes": int64(size), "limit": maxCommitBytes},
		}
	}
	id := parkedCommand(c.Scope, c.CommandID, c.Era, t.partition, c.CommandOffset)
	p.alarm, p.parked = err, parkedRecord(t.config.Topics, id, a.record, err)
}

// events asks the decider and makes the stored form of what it answers. A nil error with c.Rejected set is a
// decision; any other error but errNotLoaded says that the command can never be decided.
func (t *term) events(a *wish, c *streams.Commit, p *inFlight) error {
	if p.scope.erased || errors.Is(a.fault, streams.ErrScopeErased) {
		c.Rejected = &domain.Rejection{Code: domain.CodeScopeErased, Reason: "the account and everything in it was erased"}
		return nil
	}
	if a.fault != nil {
		return a.fault
	}
	v := view{book: t.book, scope: a.scope, reads: a.reads}
	for _, s := range v.reads {
		if _, ok := t.book.streams.get(streams.StreamKey{Scope: a.scope, Stream: s}); !ok {
			return errNotLoaded
		}
	}
	facts, err := t.askDecider(v, a.body.Body)
	var no *domain.Rejection
	if errors.As(err, &no) {
		c.Rejected = no
		return nil
	}
	if err != nil {
		return err
	}
	before := p.scope
	now, schema := make(map[domain.Stream]streamState, len(v.reads)), t.config.writes(t.config.Schema)
	for i, f := range facts {
		state, changed := now[f.Stream]
		if !changed {
			if !slices.Contains(v.reads, f.Stream) {
				return fmt.Errorf("it has an event for %s, which it does not read", f.Stream)
			}
			state, _ = t.book.streams.get(streams.StreamKey{Scope: a.scope, Stream: f.Stream})
		}
		r, err := schema.Record(a.key, a.scope, a.id, i, f.Stream, state.version+1, p.scope.position+1,
			c.DecidedAt, c.Actor, state.hash, f.Event)
		if errors.Is(err, codec.ErrLevel) {
			p.scope, c.Events, p.changes = before, nil, nil
			errors.As(notYet(), &c.Rejected)
			return nil
		}
		if err != nil {
			return err
		}
		// What is folded is what a replay will read, without content.
		folded, err := t.config.Schema.Decode(r)
		if err != nil {
			return err
		}
		if now[f.Stream], err = t.book.evolve(r, state, folded); err != nil {
			return err
		}
		p.scope.position++
		p.scope.erased = p.scope.erased || r.Type == erasure
		c.Events = append(c.Events, r)
	}
	for stream, state := range now {
		p.changes = append(p.changes, change{streams.StreamKey{Scope: a.scope, Stream: stream}, state})
	}
	return nil
}

// askDecider calls the decider.
func (t *term) askDecider(v view, c domain.Command) (facts []domain.Fact, err error) {
	a, ok := t.config.Schema.Aggregate(c.Target().Kind())
	if !ok {
		return nil, fmt.Errorf("no aggregate for %s", c.Target())
	}
	defer func() {
		if value := recover(); value != nil {
			err = panicked{"Decide", fmt.Sprintf("%T", c), value}
			t.status.log.Error("a decider panicked", "error", err, "stack", string(debug.Stack()))
		}
	}()
	return a.Decide(v, c)
}

// fly takes the decision into account for all that follow it.
func (t *term) fly(a *wish, c streams.Commit, p *inFlight, value []byte) *kgo.Record {
	p.mark, p.answer = c.Mark(), AnswerOf(c, p.scope.position)
	t.after = streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset}
	for _, ch := range p.changes {
		t.book.streams.decide(ch.key, ch.state)
	}
	if a.scope != "" {
		t.book.scopes.decide(a.scope, p.scope)
		t.deciding[streams.CommandKey{Scope: a.scope, ID: a.id}] = p
	}
	t.pending = append(t.pending, p)
	headers := traced(CommitHeaders(c, p.scope.position), t.decided(a, &c, p))
	if p.parked != nil { // who leads next must know, if this writer does not get to park it
		headers = append(headers, kgo.RecordHeader{Key: HeaderParks})
	}
	return &kgo.Record{
		Topic: t.config.Topics.Log(), Partition: t.partition, Key: []byte(a.scope), Headers: headers, Value: value,
	}
}

// repeated answers a command that was decided before. While that commit is in flight the answer waits for it.
func (t *term) repeated(a *wish) bool {
	row, known := t.book.ids.find(a.scope, a.id)
	var first *inFlight
	if !known {
		if first = t.flying(a); first != nil {
			row = &first.answer
		} else if row = a.row; row == nil {
			return false
		}
	}
	answer := *row
	asks := a.body.Fingerprint
	if len(asks) > 0 && len(answer.Fingerprint) > 0 && !bytes.Equal(asks, answer.Fingerprint) {
		answer.Rejected = &domain.Rejection{Code: domain.CodeIDReused, Reason: "another request was sent under this id before"}
		answer.Heads = nil
	}
	answer.Fingerprint = asks
	t.status.change(func(s *PartitionStats) { s.Repeated++ })
	t.writer.metrics.decided.WithLabelValues(outcomeRepeated).Inc()
	t.decidedBefore(a)
	if first != nil && !safety.Off(safety.ReadBack) {
		first.repeats = append(first.repeats, answer)
	} else {
		t.reply(answer)
	}
	return true
}

// view is what a decider sees: the streams it named.
type view struct {
	book  *book
	scope domain.Scope
	reads []domain.Stream
}

// State implements domain.View. A stream that the command did not name is a mistake of the decider.
func (v view) State(s domain.Stream) any { return v.get(s).value }

// Version implements domain.View.
func (v view) Version(s domain.Stream) uint64 { return v.get(s).version }

func (v view) get(s domain.Stream) streamState {
	if !slices.Contains(v.reads, s) {
		panic(fmt.Errorf("a decider looked at %s, which its command does not name", s.Kind()))
	}
	state, _ := v.book.streams.get(streams.StreamKey{Scope: v.scope, Stream: s})
	return state
}

// outcomeOf is what something that ran beside the term came to.
type outcomeOf[T any] struct {
	value T
	err   error
}
