package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// AskerConfig is what an Asker needs.
type AskerConfig struct {
	Config
	Schema *codec.Schema
	Keys   streams.Keys
	// States answers the look-up of ids that were decided long ago.
	States streams.States
	// Now is for logs only. Nil: time.Now.
	Now func() time.Time
	// Admit refuses a command before it is sent, with *streams.Busy. Outcomes, timers and devices' results are not
	// asked about: they are never refused. Nil: everything is admitted.
	Admit func(ctx context.Context, partition int32) error
	// Wait is how long Ask waits in all; zero: 15 s.
	Wait time.Duration
}

// Asker implements streams.Asker. Run must be running; an Ask before it waits for it.
type Asker struct {
	config  AskerConfig
	metrics *askMetrics
	lookups []chan *idLookup
	lanes   []*lane       // by partition; set before begun is closed
	begun   chan struct{} // closed when Run may take commands
	ready   chan struct{} // closed when the tail has reached the end that Run found
	ended   chan struct{} // closed when Run has ended

	mu       sync.Mutex
	inFlight map[streams.CommandKey]*asked
	places   []streams.CommandPlace // of the last counted commit that the tail read, by partition
}

// asked is a command id that somebody waits for.
type asked struct {
	key         streams.CommandKey
	fingerprint []byte
	done        chan struct{} // closed when the fields below are set

	ending ending

	mu     sync.Mutex
	sent   *lane // nil before it was sent
	offset int64 // of the command, once known; -1 before

	waiters int // guarded by the asker
}

// ending is how an id ended: with a row, or with an error; with neither if its first caller left before it was sent.
type ending struct {
	row *streams.AnswerRow
	// original says that the row is what was decided under the id; else it answers the request of the first caller.
	original bool
	repeated bool
	err      error
}

// NewAsker checks the configuration. It connects in Run.
func NewAsker(config AskerConfig) (*Asker, error) {
	if config.Schema == nil || config.Keys == nil || config.States == nil {
		return nil, errors.New("asker: schema, keys and states must be given")
	}
	config.Wait = cmp.Or(config.Wait, 15*time.Second)
	if config.Now == nil {
		config.Now = time.Now
	}
	a := &Asker{
		config: config, metrics: newAskMetrics(config.Metrics), inFlight: map[streams.CommandKey]*asked{},
		places: make([]streams.CommandPlace, config.Topics.N()),
		begun:  make(chan struct{}), ready: make(chan struct{}), ended: make(chan struct{}),
	}
	for range config.Topics.N() {
		a.lookups = append(a.lookups, make(chan *idLookup, lookupBatch))
	}
	return a, nil
}

var errEnded = errors.New("asker: it has stopped")

// Ready waits until answers arrive without delay: until the log was read to the end that Run found.
func (a *Asker) Ready(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	case <-a.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask implements streams.Asker. When ctx ends after the command was sent the error is both ErrOutcomeUnknown and ctx's.
func (a *Asker) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	if err := validate(c); err != nil {
		return streams.Answer{}, err
	}
	ctx, span := a.beginAsk(ctx, c)
	began := time.Now()
	answer, err := a.ask(ctx, c)
	a.metrics.asked(a.config.Schema.CommandName(c.Body), answer, err, time.Since(began))
	endAsk(span, answer, err)
	return answer, err
}

func (a *Asker) ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	fingerprint, err := a.fingerprint(ctx, c)
	if err != nil {
		return streams.Answer{}, err
	}
	wait, cancel := context.WithTimeout(ctx, a.config.Wait)
	defer cancel()
	key := streams.CommandKey{Scope: c.Scope, ID: c.ID}
	for {
		w, first := a.join(key, fingerprint)
		if first {
			a.send(wait, w, c)
		}
		select {
		case <-w.done:
		case <-wait.Done():
			return streams.Answer{}, a.leave(w, ctx.Err())
		}
		e := w.ending
		switch {
		case !e.original && !bytes.Equal(w.fingerprint, fingerprint):
			// Another request under the same id, whose outcome says nothing of this one: it asks for itself.
		case e.row != nil:
			return w.answer(fingerprint, !first)
		case e.err != nil:
			return streams.Answer{}, e.err
		case first:
			return streams.Answer{}, cmpErr(ctx.Err(), context.Canceled)
		}
	}
}

func validate(c streams.Command) error {
	if !c.Scope.Valid() {
		return fmt.Errorf("asker: %q is no scope", c.Scope)
	}
	if _, err := uuid.Parse(c.ID); err != nil {
		return fmt.Errorf("asker: command id %q: %w", c.ID, err)
	}
	if c.Body == nil {
		return fmt.Errorf("asker: command %s has no body", c.ID)
	}
	return nil
}

func (a *Asker) fingerprint(ctx context.Context, c streams.Command) ([]byte, error) {
	request := c.Request
	if len(request) == 0 {
		var err error
		if request, err = a.config.Schema.Plain(c.Body); err != nil {
			return nil, fmt.Errorf("asker: %w", err)
		}
	}
	index, err := a.config.Keys.Index(ctx, c.Scope)
	if err != nil {
		return nil, keyError(c.Scope, err)
	}
	return codec.Fingerprint(index, request), nil
}

// keyError is what a caller is told when there is no key: nothing was sent.
func keyError(scope domain.Scope, err error) error {
	switch {
	case errors.Is(err, codec.ErrLevel):
		return notYet()
	case errors.Is(err, streams.ErrScopeErased):
		return domain.Reject(domain.CodeScopeErased, "the account was erased")
	case errors.Is(err, streams.ErrKeysUnreachable), errors.Is(err, streams.ErrKeyAbsent):
		return fmt.Errorf("%w: %w", &streams.Busy{Reason: "the vault does not answer", RetryAfter: time.Second}, err)
	default:
		return fmt.Errorf("asker: keys of %s: %w", scope, err)
	}
}

// notYet is what is said of something that a process of the release before could not read.
func notYet() error {
	return domain.Reject(domain.CodeNotYet, "this needs the new release everywhere: an operator finalizes the upgrade (cairn upgrade finalize)")
}

// join finds who asks under the id already, or begins.
func (a *Asker) join(key streams.CommandKey, fingerprint []byte) (w *asked, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.inFlight[key]
	if !ok {
		w = &asked{key: key, fingerprint: fingerprint, done: make(chan struct{}), offset: -1}
		a.inFlight[key] = w
	}
	w.waiters++
	return w, !ok
}

// leave is the end of a caller's patience.
func (a *Asker) leave(w *asked, cause error) error {
	a.mu.Lock()
	if w.waiters--; w.waiters == 0 && a.inFlight[w.key] == w {
		a.forget(w)
	}
	a.mu.Unlock()
	sent := w.lane() != nil
	switch {
	case sent && cause != nil:
		return fmt.Errorf("%w: %w", streams.ErrOutcomeUnknown, cause)
	case sent:
		return streams.ErrOutcomeUnknown
	case cause != nil:
		return cause
	default:
		return &streams.Busy{Reason: "the log or the database does not answer", RetryAfter: time.Second}
	}
}

// forget takes an id out of those in flight. The asker must be locked.
func (a *Asker) forget(w *asked) {
	delete(a.inFlight, w.key)
	if l := w.lane(); l != nil {
		l.underWay.Add(-1)
	}
}

// lane is where the command was sent, nil before.
func (w *asked) lane() *lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// finish tells everybody who waits how an id ended; the first outcome stands.
func (a *Asker) finish(w *asked, o ending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.done:
		return
	default:
	}
	if a.inFlight[w.key] == w {
		a.forget(w)
	}
	w.ending = o
	close(w.done)
}

// waiting is who waits for an id, nil if nobody does.
func (a *Asker) waiting(scope, id []byte) *asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inFlight[streams.CommandKey{Scope: domain.Scope(scope), ID: string(id)}]
}

// place is up to where the tail has read: what was minted now was decided nowhere before it.
func (a *Asker) place(partition int32) streams.CommandPlace {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.places[partition]
}

func (a *Asker) setPlaces(at []streams.Checkpoint) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range at {
		a.places[p] = at[p].Acceptance.After
	}
}

// commandOffset is where the command stands, -1 while nobody knows.
func (w *asked) commandOffset() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offset
}

// answer is what the row says to a caller with that fingerprint.
func (w *asked) answer(fingerprint []byte, joined bool) (streams.Answer, error) {
	r := w.ending.row
	answer := streams.Answer{
		CommandID: w.key.ID, Heads: r.Heads, Repeated: w.ending.repeated || joined,
		Position: streams.Position{Scope: w.key.Scope, Position: r.Position, Era: r.Era, Partition: r.Partition, Offset: r.Offset},
	}
	answer.DecidedAt, _ = time.Parse(streams.TimeLayout, r.DecidedAt)
	switch {
	// No fingerprint: the writer could not read the command, and so answers every request of the id alike.
	case len(r.Fingerprint) > 0 && !bytes.Equal(r.Fingerprint, fingerprint):
		return streams.Answer{CommandID: w.key.ID}, domain.Reject(domain.CodeIDReused, "the id was used for another request")
	case r.Rejected != nil:
		return answer, r.Rejected
	default:
		return answer, nil
	}
}
