package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Asker implements streams.Asker without a log in between: it decides with the real deciders, at once. A
// command id has one answer, and another request under it is refused, as on the log.
type Asker struct {
	schema *codec.Schema
	keys   streams.Keys
	now    func() time.Time

	mu      sync.Mutex
	states  map[streams.StreamKey]stream
	heads   map[domain.Scope]uint64
	erased  map[domain.Scope]bool
	answers map[streams.CommandKey]answered
	log     []streams.Recorded
}

type stream struct {
	state   any
	version uint64
	hash    []byte
}

type answered struct {
	answer      streams.Answer
	err         error
	fingerprint []byte
}

// NewAsker is an asker on empty streams.
func NewAsker(schema *codec.Schema, keys streams.Keys, now func() time.Time) *Asker {
	return &Asker{
		schema: schema, keys: keys, now: now,
		states: map[streams.StreamKey]stream{}, heads: map[domain.Scope]uint64{}, erased: map[domain.Scope]bool{},
		answers: map[streams.CommandKey]answered{},
	}
}

// Recorded are all events so far, in the order they were decided.
func (a *Asker) Recorded() []streams.Recorded {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.log)
}

// Ask implements streams.Asker.
func (a *Asker) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	request := c.Request
	if len(request) == 0 {
		plain, err := a.schema.Plain(c.Body)
		if err != nil {
			return streams.Answer{}, err
		}
		request = plain
	}
	index, err := a.keys.Index(ctx, c.Scope)
	if err != nil {
		return streams.Answer{}, err
	}
	fingerprint := codec.Fingerprint(index, request)
	a.mu.Lock()
	defer a.mu.Unlock()
	key := streams.CommandKey{Scope: c.Scope, ID: c.ID}
	if known, ok := a.answers[key]; ok {
		if !slices.Equal(known.fingerprint, fingerprint) {
			return streams.Answer{}, domain.Reject(domain.CodeIDReused, "another request was made under this id")
		}
		known.answer.Repeated = true
		return known.answer, known.err
	}
	answer, err := a.decide(ctx, c)
	var no *domain.Rejection
	if err != nil && !errors.As(err, &no) {
		return streams.Answer{}, err
	}
	a.answers[key] = answered{answer, err, fingerprint}
	return answer, err
}

// view is what a decider sees.
type view struct {
	a     *Asker
	scope domain.Scope
}

// State implements domain.View.
func (v view) State(s domain.Stream) any {
	if known, ok := v.a.states[streams.StreamKey{Scope: v.scope, Stream: s}]; ok {
		return known.state
	}
	aggregate, ok := v.a.schema.Aggregate(s.Kind())
	if !ok {
		return nil
	}
	return aggregate.Zero()
}

// Version implements domain.View.
func (v view) Version(s domain.Stream) uint64 {
	return v.a.states[streams.StreamKey{Scope: v.scope, Stream: s}].version
}

func (a *Asker) decide(ctx context.Context, c streams.Command) (streams.Answer, error) {
	if a.erased[c.Scope] {
		return streams.Answer{}, domain.Reject(domain.CodeScopeErased, "the scope was erased")
	}
	aggregate, ok := a.schema.Aggregate(c.Body.Target().Kind())
	if !ok {
		return streams.Answer{}, domain.Reject(domain.CodeInternal, "no aggregate decides this")
	}
	facts, err := aggregate.Decide(view{a, c.Scope}, c.Body)
	if err != nil {
		return streams.Answer{}, err
	}
	var sealer streams.Key
	if len(facts) > 0 {
		if sealer, err = a.keys.Current(ctx, c.Scope); err != nil {
			return streams.Answer{}, err
		}
	}
	at := a.now().UTC().Truncate(time.Microsecond)
	heads := map[domain.Stream]uint64{}
	for i, fact := range facts {
		if err := a.append(sealer, c, i, at.Format(streams.TimeLayout), fact); err != nil {
			return streams.Answer{}, err
		}
		heads[fact.Stream] = view{a, c.Scope}.Version(fact.Stream)
	}
	answer := streams.Answer{
		CommandID: c.ID, DecidedAt: at,
		Position: streams.Position{Scope: c.Scope, Position: a.heads[c.Scope], Era: 1, Offset: int64(len(a.answers))},
	}
	for s, version := range heads {
		answer.Heads = append(answer.Heads, streams.Head{Stream: s, Version: version})
	}
	return answer, nil
}

func (a *Asker) append(sealer streams.Key, c streams.Command, index int, at string, fact domain.Fact) error {
	key := streams.StreamKey{Scope: c.Scope, Stream: fact.Stream}
	aggregate, _ := a.schema.Aggregate(fact.Stream.Kind())
	before, ok := a.states[key]
	if !ok {
		before.state = aggregate.Zero()
	}
	actor := codec.EncodeActor(c.Actor)
	r, err := a.schema.Record(sealer, c.Scope, c.ID, index, fact.Stream, before.version+1, a.heads[c.Scope]+1, at, actor, before.hash, fact.Event)
	if err != nil {
		return err
	}
	a.states[key] = stream{aggregate.Evolve(before.state, fact.Event), r.Version, r.Hash}
	a.heads[c.Scope] = r.Position
	a.log = append(a.log, r)
	if r.Type == "account.erased" {
		a.erased[c.Scope] = true
	}
	return nil
}
