package kafka

import (
	"bytes"
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// Run takes commands and brings answers until ctx ends, and then tells everybody who still waits that the
// outcome is not known. It is called once.
func (a *Asker) Run(ctx context.Context) error {
	err := a.run(ctx)
	close(a.ended)
	a.mu.Lock()
	waiting := make([]*asked, 0, len(a.inFlight))
	for _, w := range a.inFlight {
		waiting = append(waiting, w)
	}
	a.mu.Unlock()
	for _, w := range waiting {
		if w.lane() != nil {
			a.finish(w, ending{err: streams.ErrOutcomeUnknown})
		}
	}
	return err
}

func (a *Asker) run(ctx context.Context) error {
	var clients []*kgo.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	open := func(client *kgo.Client, err error) (*kgo.Client, error) {
		if err == nil {
			clients = append(clients, client)
		}
		return client, err
	}
	for range a.config.Topics.N() {
		l, err := a.config.newLane()
		if err != nil {
			return err
		}
		clients = append(clients, l.client)
		a.lanes = append(a.lanes, l)
	}
	from := make([]streams.Checkpoint, a.config.Topics.N())
	offsets := map[int32]int64{}
	for p := range a.config.Topics.N() {
		snapshot, err := a.load(ctx, p, streams.Lookup{})
		if err != nil {
			return err
		}
		from[p], offsets[p] = snapshot.Checkpoint, snapshot.Checkpoint.Next
	}
	ends, err := offsetsAtEnd(ctx, a.lanes[0].client, a.config.Topics.Log())
	if err != nil {
		return err
	}
	log, err := open(a.config.follow(offsets))
	if err != nil {
		return err
	}
	replies, err := a.openReplies(ctx, open)
	if err != nil {
		return err
	}
	a.setPlaces(from)
	close(a.begun)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.tailLog(ctx, log, from, ends) })
	group.Go(func() error { return a.tailReplies(ctx, replies) })
	for p := range a.config.Topics.N() {
		group.Go(func() error { return a.lookUp(ctx, p) })
		group.Go(func() error { return a.lanes[p].run(ctx) })
	}
	return group.Wait()
}

// openReplies follows the replies from their end now.
func (a *Asker) openReplies(ctx context.Context, open func(*kgo.Client, error) (*kgo.Client, error)) (*kgo.Client, error) {
	topic := a.config.Topics.Replies()
	admin, err := a.config.liveClient()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	ends, err := offsetsAtEnd(ctx, admin, topic)
	if err != nil {
		return nil, err
	}
	at := map[int32]kgo.Offset{}
	for p, end := range ends {
		at[p] = kgo.NewOffset().At(end)
	}
	return open(a.config.liveClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		// Replies that are gone are repeated by whoever asks again.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
	))
}

// tailLog reads marks and the headers of what is waited for; bodies stay bytes.
func (a *Asker) tailLog(ctx context.Context, client *kgo.Client, at []streams.Checkpoint, ends map[int32]int64) error {
	var level sync.Once
	caughtUp := func() {
		for p, end := range ends {
			if at[p].Next < end {
				return
			}
		}
		level.Do(func() { close(a.ready) })
	}
	for caughtUp(); ; caughtUp() {
		a.setPlaces(at)
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range records {
			next, mark, counts := accept(at[r.Partition], r)
			at[r.Partition] = next
			if !counts || mark.Sort != streams.SortCommit {
				continue
			}
			w := a.waitingFor(r)
			if w == nil {
				continue
			}
			h, err := ReadHeaders(r.Headers)
			if err != nil {
				return &Defect{Partition: r.Partition, Offset: r.Offset, Reason: err.Error()}
			}
			h.Answer.Partition, h.Answer.Offset = r.Partition, r.Offset
			own := w.commandOffset()
			a.finish(w, ending{row: &h.Answer, original: true, repeated: own >= 0 && own != mark.CommandOffset})
		}
	}
}

// tailReplies brings the answers to commands that had been decided before.
func (a *Asker) tailReplies(ctx context.Context, client *kgo.Client) error {
	for {
		records, err := pollEphemeral(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range records {
			w := a.waitingFor(r)
			if w == nil {
				continue
			}
			h, err := ReadHeaders(r.Headers)
			if err != nil {
				a.config.log().Warn("a reply can't be read", "partition", r.Partition, "offset", r.Offset, "error", err)
				continue
			}
			// A reply answers one request: there may be others under the id.
			if len(h.Answer.Fingerprint) == 0 || bytes.Equal(h.Answer.Fingerprint, w.fingerprint) {
				a.finish(w, ending{row: &h.Answer, repeated: true})
			}
		}
	}
}

// waitingFor is who waits for the id in a record's headers.
func (a *Asker) waitingFor(r *kgo.Record) *asked {
	scope, _ := find(r.Headers, HeaderScope)
	id, _ := find(r.Headers, HeaderCommandID)
	return a.waiting(scope, id)
}
