package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// wish is a command as it came, decoded as far as that can be.
type wish struct {
	record *kgo.Record
	scope  domain.Scope // empty, with id: the headers can't be read, or it lies in a wrong partition
	id     string
	body   codec.Envelope
	reads  []domain.Stream
	key    streams.Key
	// fault says why it can never be decided. streams.ErrScopeErased: its key is gone.
	fault error
	known streams.CommandPlace // its id was not in the table when that held for this place
	row   *streams.AnswerRow   // what the table says
	trace string               // the traceparent it came with
	came  time.Time            // where spans are begun
}

// intake reads commands and decodes them while the batch before is being decided. What comes meanwhile
// joins the batch that waits, so a busy partition decides many at once.
func (t *term) intake(ctx context.Context, commands *kgo.Client, batches chan<- []wish) error {
	polled := make(chan []*kgo.Record)
	failed := make(chan error, 1)
	go func() { failed <- t.poll(ctx, commands, polled) }()
	var waiting []wish
	for {
		in, out := polled, batches
		if len(waiting) == 0 {
			out = nil
		}
		if len(waiting) >= maxBatch {
			in = nil
		}
		select {
		case err := <-failed:
			return err
		case out <- waiting:
			waiting = nil
		case records := <-in:
			for _, r := range records {
				a, err := t.decode(ctx, r)
				if err != nil {
					_ = <-failed // of ctx
					return err
				}
				waiting = append(waiting, a)
			}
		}
	}
}

// poll hands on what a client reads, until ctx ends or it fails.
func (t *term) poll(ctx context.Context, client *kgo.Client, out chan<- []*kgo.Record) error {
	for {
		fetches := client.PollRecords(ctx, maxBatch)
		if err := fetchError(ctx, fetches); err != nil {
			return err
		}
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		select {
		case out <- records:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// decode reads a command. It waits while the vault is away or a key is missing; its error is ctx's.
func (t *term) decode(ctx context.Context, r *kgo.Record) (wish, error) {
	a := wish{record: r}
	scope, _ := find(r.Headers, HeaderScope)
	id, _ := find(r.Headers, HeaderCommandID)
	if _, err := uuid.Parse(string(id)); err != nil || !domain.Scope(scope).Valid() {
		a.fault = errors.New("its headers name no scope and command id")
		return a, nil
	}
	if p := t.config.Topics.PartitionOf(domain.Scope(scope)); p != t.partition {
		a.fault = errors.New("its scope belongs to another partition")
		return a, nil
	}
	a.scope, a.id = domain.Scope(scope), string(id)
	t.traces(&a)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := t.openBody(ctx, &a)
		if err == nil {
			t.status.goOn("keys")
			return a, nil
		}
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		what := "the vault"
		if errors.Is(err, streams.ErrKeyAbsent) {
			what = "the lost key of " + string(a.scope) + " (`cairn keys lost` ends the wait)"
		}
		t.status.wait("keys", what, err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return a, ctx.Err()
		case <-timer.C:
		}
	}
}

// openBody decodes the body and fetches the key that its events will be sealed with. Its error is worth another try.
func (t *term) openBody(ctx context.Context, a *wish) error {
	var err error
	a.body, err = t.config.Schema.DecodeCommand(ctx, t.config.Keys, a.record.Value)
	a.known = a.body.Known
	switch {
	case errors.Is(err, streams.ErrScopeErased), errors.Is(err, codec.ErrUndecodable):
		a.fault = err
		return nil
	case err != nil:
		return err
	case a.body.Scope != a.scope || a.body.ID != a.id:
		a.fault = errors.New("its body names another scope or command id than its headers")
		return nil
	}
	if a.reads, err = t.reads(a.body.Body); err != nil {
		a.fault = err
		return nil
	}
	a.key, err = t.config.Keys.Current(ctx, a.scope)
	if errors.Is(err, streams.ErrScopeErased) {
		a.fault = err
		return nil
	}
	return err
}

// reads are the streams that a command names, each of them valid and of an aggregate that is known.
func (t *term) reads(c domain.Command) (names []domain.Stream, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked{"Reads", fmt.Sprintf("%T", c), value}
		}
	}()
	names = domain.Reads(c)
	for _, s := range names {
		if _, known := t.config.Schema.Aggregate(s.Kind()); !known || !s.Valid() {
			return nil, fmt.Errorf("%T reads what is no stream", c)
		}
	}
	return names, nil
}
