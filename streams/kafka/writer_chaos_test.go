package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Whatever dies, pauses, is cut off or set back: nothing that was acknowledged is lost, each command is decided once, versions
// and positions have no gap, and a repeated request has the same answer. Writers are of two releases that
// decide differently; several may believe themselves in charge. CAIRN_SEED runs one seed, CAIRN_SEEDS that many.
func TestNothingIsLostRepeatedOrReorderedUnderChaos(t *testing.T) {
	from, n := uint64(1), uint64(4)
	if v, err := strconv.ParseUint(os.Getenv("CAIRN_SEEDS"), 10, 32); err == nil {
		n = v
	}
	if v, err := strconv.ParseUint(os.Getenv("CAIRN_SEED"), 10, 32); err == nil {
		from, n = v, 1
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newStorm(t, seed).run() })
		})
	}
}

// storm is one schedule of faults and the clients that live through it.
type storm struct {
	*stage
	seed  uint64
	rand  *rand.Rand
	store *setBack

	mu    sync.Mutex
	asked []streams.Command
}

// told is what a client was told.
type told struct {
	answer streams.Answer
	code   string
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{stage: newStage(t, 1), seed: seed, rand: rand.New(rand.NewPCG(seed, 7))}
	s.store = &setBack{States: s.states}
	s.shared = s.store
	return s
}

func (s *storm) run() {
	defer s.close()
	heard := map[string]told{}
	s.another(true)
	leading(s.hosts...)
	var clients sync.WaitGroup
	for c := range 16 {
		r := rand.New(rand.NewPCG(s.seed, uint64(100+c)))
		ask, stop := s.asker()
		clients.Go(func() {
			defer stop()
			for i := range 12 {
				s.client(r, ask, heard, c, i)
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for calm := false; !calm; {
		select {
		case <-done:
			calm = true
		case <-time.After(time.Duration(50+s.rand.IntN(2500)) * time.Millisecond):
			s.fault()
		}
	}
	s.heal()

	all := s.check()
	if len(heard) == 0 || all.leads < 2 {
		s.t.Fatalf("%d answers under %d leads: nothing happened", len(heard), all.leads)
	}
	ask, stop := s.asker()
	defer stop()
	for _, c := range s.asked {
		was := heard[c.ID]
		row, ok := all.answers[c.ID]
		if !ok {
			s.t.Fatalf("command %s was answered %+v and is not in the log", c.ID, was)
		}
		if row.Rejected != nil && row.Rejected.Code != was.code || row.Rejected == nil && row.Position != was.answer.Position.Position {
			s.t.Fatalf("command %s was answered %+v, the log says %+v", c.ID, was, row)
		}
		again, err := ask.Ask(context.Background(), c)
		if now := heardOf(again, err); now.code != was.code || now.answer.Position != was.answer.Position {
			s.t.Fatalf("command %s was answered %+v and, asked again, %+v", c.ID, was, now)
		}
	}
	after := s.check()
	if len(after.answers) != len(all.answers) {
		s.t.Fatal("asking again appended something")
	}
	s.t.Logf("seed %d: %d commands, %d commits, %d leads, %d hosts", s.seed, len(heard), len(all.commits), all.leads, len(s.hosts))
}

func heardOf(a streams.Answer, err error) told {
	if err != nil {
		return told{code: code(err)}
	}
	return told{answer: a}
}

// client asks, and asks again under the same id until it knows. Now and then it asks what another asks too.
func (s *storm) client(r *rand.Rand, ask *kafka.Asker, heard map[string]told, c, i int) {
	name := fmt.Sprintf("%d-%d", c, i)
	if r.IntN(3) == 0 {
		name = fmt.Sprintf("shared-%d", i)
	}
	scope := domain.Scope("user-" + string("abc"[len(name)%3]))
	w := wish(scope, name, add{Tally: string("xy"[i%2]), By: i % 4, Note: note{"n"}})
	if i%3 == 0 {
		w.Body = add{Tally: "x", By: i + 1, Also: []string{"y"}}
	}
	elapse(time.Duration(r.IntN(4)*r.IntN(800)) * time.Millisecond)
	for {
		answer, err := ask.Ask(context.Background(), w)
		var no *domain.Rejection
		if err != nil && !errors.As(err, &no) {
			elapse(time.Duration(100+r.IntN(500)) * time.Millisecond)
			continue
		}
		now := heardOf(answer, err)
		s.mu.Lock()
		was, before := heard[w.ID]
		heard[w.ID] = now
		if !before {
			s.asked = append(s.asked, w)
		}
		s.mu.Unlock()
		if before && (was.code != now.code || was.answer.Position != now.answer.Position) {
			s.t.Errorf("seed %d: command %s was answered %+v and %+v", s.seed, w.ID, was, now)
		}
		return
	}
}

// another starts a writer; one that is not welcome believes itself in charge for want of a common group.
func (s *storm) another(welcome bool) {
	n := len(s.hosts)
	s.start(func(c *kafka.WriterConfig) {
		c.Schema = release(s.t, 1+n%2, 1)
		c.CachedStreams, c.HeldIDs = 1+s.rand.IntN(4), 1+s.rand.IntN(20)
		if !welcome {
			c.Group = fmt.Sprint("group ", n)
		}
	})
}

// fault does something bad to somebody.
func (s *storm) fault() {
	var alive []*host
	for _, h := range s.hosts {
		if !h.gone() {
			alive = append(alive, h)
		}
	}
	if len(alive) == 0 {
		s.another(true)
		return
	}
	h := alive[s.rand.IntN(len(alive))]
	awhile := time.Duration(500+s.rand.IntN(20_000)) * time.Millisecond
	switch s.rand.IntN(10) {
	case 0, 1:
		if len(alive) == 1 {
			s.another(true)
		}
		h.kill()
	case 2:
		if len(alive) == 1 {
			s.another(true)
		}
		h.shutdown()
	case 3, 4:
		h.pause()
		time.AfterFunc(awhile, h.resume)
	case 5:
		h.drop()
	case 6:
		if len(alive) < 4 {
			s.another(s.rand.IntN(2) == 0)
		}
	case 7:
		h.storeAway(true)
		time.AfterFunc(awhile/4, func() { h.storeAway(false) })
	case 8:
		s.store.mu.Lock()
		n := len(s.store.flushes)
		s.store.mu.Unlock()
		if n > 0 {
			s.store.back()
		}
	case 9:
		errs := []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.UnknownServerError, kerr.NotLeaderForPartition}
		s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: s.config.Topics.Log(), Err: errs[s.rand.IntN(len(errs))], Count: 1 + s.rand.IntN(3)})
	}
}

// heal ends all faults and leaves somebody in charge.
func (s *storm) heal() {
	for _, h := range s.hosts {
		h.resume()
		h.storeAway(false)
	}
	s.another(true)
}
