package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// serve decides commands until something is in doubt. One goroutine owns all that the term knows; around it
// one reads commands, one reads the log, one appends, and states are loaded and stored beside it.
func (t *term) serve(ctx context.Context) error {
	topics := t.config.Topics
	from := int64(0)
	if a := t.book.at.Acceptance; a.After.Era == a.Era {
		from = a.After.Offset + 1
	}
	t.after = t.book.at.Acceptance.After
	t.deciding = map[streams.CommandKey]*inFlight{}
	t.parking = make(chan *kgo.Record, maxBatch*(t.config.InFlight+1))
	t.allParked = make(chan struct{}, 1)
	commands, err := t.config.client(
		quiet(t.config.Log),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Commands(): {t.partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return err
	}
	defer commands.Close()

	// What runs beside the term goes on for a moment after ctx ended, to finish what is in flight.
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	g, life := errgroup.WithContext(life)
	batches := make(chan []wish)
	records := make(chan []*kgo.Record)
	appends := make(chan []*kgo.Record, t.config.InFlight)
	taking, stopTaking := context.WithCancel(life)
	defer stopTaking()
	g.Go(func() error { return ignore(taking, t.intake(taking, commands, batches)) })
	g.Go(func() error { return t.poll(life, t.log, records) })
	g.Go(func() error { return t.appendAll(life, appends) })
	g.Go(func() error { return t.parkAll(life) })
	l := &loop{term: t, batches: batches, records: records, appends: appends, life: life, stopTaking: stopTaking}
	ended := l.run(ctx)
	t.lostSight()
	aside := life.Err() != nil // something beside the loop failed, and ended it
	die()
	l.side.Wait()
	if err := g.Wait(); aside {
		return err
	}
	return ended
}

// ignore drops the error of what was told to stop.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// appendAll appends batch after batch, each in one request.
func (t *term) appendAll(ctx context.Context, batches <-chan []*kgo.Record) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case records := <-batches:
			if err := t.append(ctx, records); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// parkAll appends what was parked; it tries until it succeeds.
func (t *term) parkAll(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-t.parking:
			if t.parkOne(ctx, r) != nil {
				return nil
			}
			if t.unparked.Add(-1) == 0 {
				select {
				case t.allParked <- struct{}{}:
				default:
				}
			}
		}
	}
}

// loop is the state of serve's owner.
type loop struct {
	*term
	life       context.Context
	batches    <-chan []wish
	records    <-chan []*kgo.Record
	appends    chan<- []*kgo.Record
	stopTaking context.CancelFunc
	side       sync.WaitGroup // of what runs beside the loop on its behalf

	batch   []wish // being decided: what is left of it
	loading bool
	loads   chan outcomeOf[loaded]
	writes  chan outcomeOf[flush]
	trimmed int64
}

// run answers why the lead ends; nil when ctx ended and everything in flight was read back and stored.
func (l *loop) run(ctx context.Context) error {
	l.loads, l.writes = make(chan outcomeOf[loaded], 1), make(chan outcomeOf[flush], 1)
	if a := l.book.stored.Acceptance; a.After.Era == a.Era { // else nothing was decided in this era yet
		l.trimmed = a.After.Offset
	}
	tick := time.NewTicker(l.config.FlushEvery)
	defer tick.Stop()
	l.flush()
	done := ctx.Done()
	for {
		in := l.batches
		if len(l.batch) > 0 || l.term.batches >= l.config.InFlight || l.book.ids.unflushed() >= l.config.MaxUnflushed || done == nil {
			in = nil
		}
		var err error
		select {
		case <-l.life.Done():
			return l.life.Err()
		case <-done:
			done = nil
			l.stopTaking()
			l.batch = nil
		case l.batch = <-in:
			err = l.work()
		case records := <-l.records:
			if err = l.readBack(records); err == nil {
				err = l.work()
			}
		case o := <-l.loads:
			if l.loading, err = false, o.err; err == nil {
				if err = l.learn(o.value); err == nil {
					l.found(l.batch, o.value.snapshot, o.value.what.Commands)
					err = l.work()
				}
			}
		case o := <-l.writes:
			if err = o.err; err == nil {
				l.wrote(o.value)
				l.trimBehind()
			}
		case <-tick.C:
			if len(l.pending) > 0 && time.Since(l.pending[0].at) > l.config.ReadBackWithin {
				err = fmt.Errorf("an own commit was not read back within %s", l.config.ReadBackWithin)
			}
			l.flush()
		}
		if err != nil {
			return err
		}
		if done == nil && len(l.pending) == 0 {
			return l.finish()
		}
	}
}

// finish stores what is known, so that the next writer has little to replay.
func (l *loop) finish() error {
	ctx, cancel := context.WithTimeout(l.life, 5*time.Second)
	defer cancel()
	for l.unparked.Load() > 0 {
		select {
		case <-l.allParked:
		case <-ctx.Done():
			return nil
		}
	}
	if l.book.storing {
		select {
		case o := <-l.writes:
			if o.err != nil {
				return nil
			}
			l.wrote(o.value)
		case <-ctx.Done():
			return nil
		}
	}
	if l.book.at != l.book.stored {
		if err := l.store(ctx); err != nil {
			l.status.log.Warn("states were not stored at the end", "error", err)
		}
	}
	return nil
}

// work decides what is left of the batch, unless something must be loaded for it first.
func (l *loop) work() error {
	for len(l.batch) > 0 && !l.loading && l.term.batches < l.config.InFlight {
		if what := l.needs(l.batch); !(&lookup{Lookup: what}).empty() {
			l.loading = true
			floor := l.book.stored
			l.side.Go(func() {
				found, err := l.fetch(l.life, what, floor)
				l.loads <- outcomeOf[loaded]{found, err}
			})
			return nil
		}
		if err := l.decideBatch(); err != nil {
			return err
		}
	}
	if len(l.batch) == 0 {
		l.book.passed()
	}
	return nil
}

// decideBatch decides as many commands as belong into one batch, and appends their commits.
func (l *loop) decideBatch() error {
	began, size := time.Now(), 0
	var records []*kgo.Record
	for len(l.batch) > 0 && len(records) < maxBatch && size < maxBatchBytes && time.Since(began) < maxBatchTime {
		r, err := l.decide(&l.batch[0])
		if errors.Is(err, errNotLoaded) {
			break
		}
		if err != nil {
			return err
		}
		l.batch = l.batch[1:]
		if r != nil {
			records = append(records, r)
			size += len(r.Value)
		}
	}
	if len(records) == 0 {
		return nil
	}
	l.pending[len(l.pending)-1].last = true
	l.writer.metrics.batch.Observe(float64(len(records)))
	l.writer.metrics.bytes.Observe(float64(size))
	l.writer.metrics.deciding.Observe(time.Since(began).Seconds())
	l.term.batches++
	l.appends <- records // has room for as many batches as may be in flight
	return nil
}

// readBack follows the log. All that counts in it must be what this writer appended, in that order.
func (l *loop) readBack(records []*kgo.Record) error {
	b := l.book
	now := l.config.Now()
	var decided, rejected int64
	for _, r := range records {
		b.at.Next = r.Offset + 1
		m, err := MarkOf(r.Headers)
		if err != nil {
			l.status.log.Warn("a record of the log has no mark, and is ignored", "offset", r.Offset, "error", err)
			continue
		}
		var counted bool
		b.at.Acceptance, counted = b.at.Acceptance.Accept(m)
		switch {
		case counted && m.Sort != streams.SortCommit:
			return fmt.Errorf("%w: number %d", errOtherLeads, m.Lead)
		case counted && (len(l.pending) == 0 || l.pending[0].mark != m):
			return fmt.Errorf("a commit counts that this lead did not expect, at %d", r.Offset)
		case !counted && m.Sort == streams.SortCommit && m.Writer == l.id:
			return fmt.Errorf("an own commit does not count, at %d", r.Offset)
		case !counted:
			continue
		}
		p := l.pending[0]
		l.pending[0] = nil
		l.pending = l.pending[1:]
		p.answer.Partition, p.answer.Offset = r.Partition, r.Offset
		l.count(p, now)
		l.writer.metrics.counted(p)
		decided++
		if p.answer.Rejected != nil {
			rejected++
		}
	}
	l.status.change(func(s *PartitionStats) {
		s.Decided += decided
		s.Rejected += rejected
		s.Unflushed = b.ids.unflushed()
	})
	return nil
}

// count says that a commit counts: only now anybody hears of it.
func (l *loop) count(p *inFlight, now time.Time) {
	for _, ch := range p.changes {
		l.book.streams.settle(ch.key, ch.state)
	}
	if p.answer.Scope != "" {
		l.book.scopes.settle(p.answer.Scope, p.scope)
		delete(l.deciding, streams.CommandKey{Scope: p.answer.Scope, ID: p.answer.CommandID})
	}
	l.book.ids.add(p.answer, streams.CommandPlace{Era: p.mark.Era, Offset: p.mark.CommandOffset}, now)
	for _, answer := range p.repeats {
		answer.Partition, answer.Offset = p.answer.Partition, p.answer.Offset
		l.reply(answer)
	}
	if p.parked != nil {
		l.park(l.life, p)
	}
	p.appended()
	if p.last {
		l.term.batches--
	}
}

// flush begins to store what is known, unless that is stored or being stored. What is to be parked comes first: the next
// writer looks for it only behind the stored checkpoint.
func (l *loop) flush() {
	if l.book.storing || l.book.at == l.book.stored || l.unparked.Load() > 0 {
		return
	}
	f := l.prepare()
	l.side.Go(func() {
		err := l.write(l.life, f)
		l.writes <- outcomeOf[flush]{f, err}
	})
}

// trimBehind drops old commands when there are many.
func (l *loop) trimBehind() {
	a := l.book.stored.Acceptance
	if a.After.Era != a.Era || a.After.Offset-l.trimmed < l.config.TrimEvery {
		return
	}
	l.trimmed = a.After.Offset
	stored := l.book.stored
	l.side.Go(func() {
		if err := l.trim(l.life, stored); err != nil && l.life.Err() == nil {
			l.status.log.Warn("commands were not trimmed", "error", err)
		}
	})
}
