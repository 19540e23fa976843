package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	judge "github.com/cairnhq/cairn/streams/streamstest/history"
)

// another starts a writer; a rival believes itself in charge for want of a common group.
func (s *storm) another(kind string) {
	n := len(s.hosts)
	s.start(func(c *kafka.WriterConfig) {
		c.Schema = release(s.t, 1+n%2, 1)
		c.CachedStreams, c.HeldIDs = 1+s.rand.IntN(4), 1+s.rand.IntN(20)
		if kind == "a rival" {
			c.Group = fmt.Sprint("group ", n)
		}
		if s.rand.IntN(4) == 0 {
			skew := time.Duration(s.rand.IntN(7200)-3600) * time.Second
			c.Now = func() time.Time { return time.Now().Add(skew) }
		}
	})
}

// fault does something bad to somebody.
func (s *storm) fault(ctx context.Context) {
	var alive []*host
	for _, h := range s.hosts {
		if !h.gone() {
			alive = append(alive, h)
		}
	}
	if len(alive) == 0 {
		s.another("a writer")
		return
	}
	h := alive[s.rand.IntN(len(alive))]
	own := s.lines[s.rand.IntN(len(s.lines))]
	awhile := time.Duration(500+s.rand.IntN(20_000)) * time.Millisecond
	name := "nothing"
	switch s.rand.IntN(22) {
	case 0, 1:
		name = "kill"
		if len(alive) == 1 {
			s.another("a writer")
		}
		h.kill()
	case 2:
		name = "shutdown"
		if len(alive) == 1 {
			s.another("a writer")
		}
		h.shutdown()
	case 3, 4:
		name = "pause"
		h.pause()
		time.AfterFunc(awhile, h.resume)
	case 5, 6:
		name = "lost answers"
		h.drop()
	case 7, 8:
		name = "late answers"
		h.hold()
		time.AfterFunc(awhile, h.release)
	case 9:
		name = "a join"
		if len(alive) < 4 {
			s.another("a writer")
		}
	case 10:
		name = "a rival"
		if len(alive) < 4 {
			s.another("a rival")
		}
	case 11:
		name = "store away"
		h.storeAway(true)
		time.AfterFunc(awhile/4, func() { h.storeAway(false) })
	case 12:
		name = "store set back"
		s.store.mu.Lock()
		n := len(s.store.flushes)
		s.store.mu.Unlock()
		if n > 0 {
			s.store.back()
		}
	case 13, 14, 15:
		name = s.brokerErrors()
	case 16:
		name = "elections"
		s.elect()
	case 17:
		name = "a client's lost answers"
		own.drop()
	case 18:
		name = "a client's late answers"
		own.hold()
		time.AfterFunc(awhile/2, own.release)
	case 19:
		name = "a client's pause"
		own.pause()
		time.AfterFunc(awhile/2, own.resume)
	case 20:
		name = "a rebalance"
		s.handles = append(s.handles, s.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 1 + s.rand.IntN(3),
		}))
	case 21:
		name = "a reading of the log"
		if log, err := judge.Read(ctx, s.config); err == nil {
			s.logs = append(s.logs, log)
		}
	}
	s.injected[name]++
}

// brokerErrors has the brokers answer some of the next requests of one sort with an error.
func (s *storm) brokerErrors() string {
	log, commands := s.config.Topics.Log(), s.config.Topics.Commands()
	type sort struct {
		name  string
		keys  []kmsg.Key
		topic string
		errs  []*kerr.Error
	}
	produce := []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.UnknownServerError, kerr.NotLeaderForPartition, kerr.KafkaStorageError}
	sorts := []sort{
		{"append errors", []kmsg.Key{kmsg.Produce}, log, produce},
		{"command errors", []kmsg.Key{kmsg.Produce}, commands, produce},
		{"fetch errors", []kmsg.Key{kmsg.Fetch}, "", []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.FencedLeaderEpoch}},
		{"end errors", []kmsg.Key{kmsg.ListOffsets}, "", []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.RequestTimedOut}},
		{"metadata errors", []kmsg.Key{kmsg.Metadata}, log, []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownServerError}},
		{
			"group errors", []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetFetch}, "",
			[]*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.CoordinatorLoadInProgress},
		},
	}
	one := sorts[s.rand.IntN(len(sorts))]
	s.handles = append(s.handles, s.cluster.Fault(kfake.Fault{
		Keys: one.keys, Topic: one.topic, Err: one.errs[s.rand.IntN(len(one.errs))], Count: 1 + s.rand.IntN(6),
	}))
	return one.name
}

// elect begins a new epoch of partitions, and moves the group's coordination.
func (s *storm) elect() {
	for _, topic := range []string{s.config.Topics.Log(), s.config.Topics.Commands(), s.config.Topics.Replies()} {
		for p := range s.config.Topics.N() {
			if s.rand.IntN(2) == 0 {
				continue
			}
			if err := s.cluster.MoveTopicPartition(topic, p, 0); err != nil {
				s.t.Error(err)
			}
		}
	}
	s.cluster.RehashCoordinators()
}

// heal ends all faults and leaves somebody in charge.
func (s *storm) heal() {
	for _, f := range s.handles {
		f.Remove()
	}
	for _, l := range s.lines {
		l.mend()
	}
	for _, h := range s.hosts {
		h.mend()
		h.storeAway(false)
	}
	s.another("a writer")
}

// follower reads the log as a gateway does, on a network of its own: it goes on where it was, whatever happens to it.
type follower struct {
	*storm
	name   string
	config kafka.Config
	stop   func()
	subs   map[domain.Scope]*judge.Subscriber
	next   []chan int64 // by partition: where it stands, the newest only
}

func (s *storm) follow(ctx context.Context, name string) *follower {
	f := &follower{storm: s, name: name, config: s.own(), subs: map[domain.Scope]*judge.Subscriber{}}
	s.readers = append(s.readers, f)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, s.config.Topics.N())
	for p := range s.config.Topics.N() {
		f.next = append(f.next, make(chan int64, 1))
		go func() { defer func() { done <- struct{}{} }(); f.read(ctx, p) }()
	}
	f.stop = func() {
		cancel()
		for range s.config.Topics.N() {
			<-done
		}
	}
	for _, scope := range []domain.Scope{"user-a", "user-b", "user-c", "user-d"} {
		f.subs[scope] = s.record.Subscribe(name+" of "+string(scope), scope, "", 0)
	}
	return f
}

func (f *follower) read(ctx context.Context, partition int32) {
	tailer, err := kafka.NewTailer(f.config)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer tailer.Close()
	from := streams.Start()
	for ctx.Err() == nil {
		err := tailer.Tail(ctx, partition, from, func(_ context.Context, b streams.Batch) error {
			for _, c := range b.Commits {
				for _, e := range c.Events {
					f.subs[c.Scope].DeliveredEvent(e)
				}
			}
			from = b.Next
			select {
			case <-f.next[partition]:
			default:
			}
			f.next[partition] <- from.Next
			return nil
		})
		var defect *kafka.Defect
		if errors.As(err, &defect) {
			f.t.Errorf("seed %d, %s: %v", f.seed, f.name, err)
			return
		}
		elapse(50 * time.Millisecond)
	}
}

// level waits until every reader has everything.
func (s *storm) level(ctx context.Context) {
	end := s.ends(ctx).log.Ends
	for _, r := range s.readers {
		for p := range r.next {
			for at := int64(0); at < end[p]; {
				select {
				case at = <-r.next[p]:
				case <-ctx.Done():
					s.t.Errorf("seed %d: %s stands at %d of %d in partition %d", s.seed, r.name, at, end[p], p)
					return
				}
			}
		}
		for _, sub := range r.subs {
			sub.Level()
		}
	}
}
