package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	judge "github.com/cairnhq/cairn/streams/streamstest/history"
)

// Whatever dies, pauses, is cut off, set back or answered late: the checker finds no law broken. Writers are of two
// releases that decide differently; several may believe themselves in charge. Each seed is a schedule of faults:
// CAIRN_SEED runs one, CAIRN_SEEDS that many from CAIRN_FROM (1) on.
func TestNothingIsLostRepeatedOrReorderedUnderChaos(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		if v, err := strconv.ParseUint(os.Getenv(name), 10, 32); err == nil {
			return v
		}
		return otherwise
	}
	from, n := number("CAIRN_FROM", 1), number("CAIRN_SEEDS", 5)
	if seed := number("CAIRN_SEED", 0); seed > 0 {
		from, n = seed, 1
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			// Virtual time stands still while anything spins.
			watch := time.AfterFunc(3*time.Minute, func() { panic(fmt.Sprintf("seed %d does not come to an end", seed)) })
			defer watch.Stop()
			synctest.Test(t, func(t *testing.T) { newStorm(t, seed).run() })
		})
	}
}

// storm is one schedule of faults, and the clients and readers that live through it.
type storm struct {
	*stage
	seed     uint64
	rand     *rand.Rand
	store    *setBack
	record   *judge.Recorder
	lines    []*line // of askers and readers
	handles  []*kfake.FaultHandle
	injected map[string]int
	logs     []*judge.Log // read on the way
	readers  []*follower

	mu      sync.Mutex
	decided []streams.Command // what somebody was told a decision of
}

// newStorm has one broker: a client that waits for an answer of one broker while it holds a lock that it needs for another
// stops virtual time. Elections among several are for real Kafka.
func newStorm(t *testing.T, seed uint64) *storm {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &storm{
		stage: newStage(t, 1+int32(r.IntN(2))), seed: seed, rand: r, record: judge.New(), injected: map[string]int{},
	}
	s.store = &setBack{States: s.states}
	s.shared, s.latency = s.store, latency
	s.config = s.own()
	s.lines = nil // nothing happens to this one
	return s
}

// the shape of a storm.
const (
	stormAskers  = 4
	stormClients = 3 // on each asker
	stormAsks    = 10
	stormReaders = 2
	latency      = time.Millisecond
)

func (s *storm) run() {
	defer elapse(time.Minute) // answers on their way, and time-outs, come to their end
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	s.another("a writer")
	leading(s.hosts...)
	for i := range stormReaders {
		r := s.follow(ctx, fmt.Sprint("reader ", i))
		defer r.stop()
	}
	var clients sync.WaitGroup
	for a := range stormAskers {
		ask, stop := s.askerOn(s.own())
		defer stop()
		for c := range stormClients {
			r := rand.New(rand.NewPCG(s.seed, uint64(100+10*a+c)))
			name := fmt.Sprintf("%d.%d", a, c)
			clients.Go(func() {
				for i := range stormAsks {
					s.client(ctx, r, s.record.Asker(name, ask), name, i)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for calm := false; !calm; {
		select {
		case <-done:
			calm = true
		case <-time.After(time.Duration(50+s.rand.IntN(2500)) * time.Millisecond):
			s.fault(ctx)
		}
	}
	s.heal()
	s.askAgain(ctx)
	s.level(ctx)
	s.judge(ctx)
}

// own is the configuration of a process with a network of its own.
func (s *storm) own() kafka.Config {
	l := newLine(s.network)
	l.latency = latency
	s.lines = append(s.lines, l)
	config := s.config
	config.Options = []kgo.Opt{kgo.Dialer(l.dial)}
	return config
}

// client asks, and asks again under the same id until it knows, or gives up. Now and then it asks what another asks too,
// or something else under the same id.
func (s *storm) client(ctx context.Context, r *rand.Rand, ask streams.Asker, me string, i int) {
	name := fmt.Sprintf("%s-%d", me, i)
	shared := r.IntN(3) == 0
	if shared {
		name = fmt.Sprintf("shared-%d", i)
	}
	scope := domain.Scope("user-" + string("abcd"[len(name)%3]))
	w := wish(scope, name, add{Tally: string("xy"[i%2]), By: i % 4, Note: note{"n"}})
	switch {
	case i%3 == 0:
		w.Body = add{Tally: "x", By: i + 1, Also: []string{"y"}}
	case shared && r.IntN(4) == 0:
		w.Request = append(w.Request, " in other words"...)
	case r.IntN(25) == 0:
		w = wish("user-d", name, add{Tally: "x", By: 1})
	case r.IntN(60) == 0:
		w = wish("user-d", name, erase{"d"})
	}
	elapse(time.Duration(r.IntN(4)*r.IntN(800)) * time.Millisecond)
	for {
		_, err := ask.Ask(ctx, w)
		var no *domain.Rejection
		if err == nil || errors.As(err, &no) {
			s.mu.Lock()
			s.decided = append(s.decided, w)
			s.mu.Unlock()
			return
		}
		if ctx.Err() != nil {
			s.t.Errorf("seed %d: an hour was not enough for %s", s.seed, name)
			return
		}
		if r.IntN(12) == 0 {
			return
		}
		elapse(time.Duration(100+r.IntN(500)) * time.Millisecond)
	}
}

// askAgain asks everything once more that somebody was told a decision of: it must be told the same, and change nothing.
func (s *storm) askAgain(ctx context.Context) {
	ask, stop := s.asker()
	defer stop()
	var all sync.WaitGroup
	limit := make(chan struct{}, 16)
	for _, w := range s.decided {
		all.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			for again := s.record.Asker("again", ask); ctx.Err() == nil; {
				_, err := again.Ask(ctx, w)
				var no *domain.Rejection
				if err == nil || errors.As(err, &no) {
					return
				}
				elapse(100 * time.Millisecond)
			}
		})
	}
	before := s.ends(ctx)
	all.Wait()
	if after := s.ends(ctx); fmt.Sprint(before.commits) != fmt.Sprint(after.commits) {
		s.t.Errorf("seed %d: asking again appended something: %v commits, and then %v", s.seed, before.commits, after.commits)
	}
}

type ends struct {
	commits int
	log     *judge.Log
}

// ends reads the log as it is now.
func (s *storm) ends(ctx context.Context) ends {
	log, err := judge.Read(ctx, s.config)
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	s.logs = append(s.logs, log)
	e := ends{log: log}
	for _, p := range log.Partitions {
		for i := range p {
			if p[i].Counts && p[i].Commit != nil {
				e.commits++
			}
		}
	}
	return e
}

// judge has the checker look at everything.
func (s *storm) judge(ctx context.Context) {
	e := judge.Evidence{History: s.record, Logs: append(s.logs, s.ends(ctx).log, s.ends(ctx).log)}
	var err error
	if e.Faults, err = judge.States(ctx, e, s.states, release(s.t, 1, 1)); err != nil {
		s.t.Fatal(err)
	}
	v := judge.Check(e)
	if err := v.Err(); err != nil {
		s.t.Errorf("seed %d:\n%v\n%s", s.seed, err, v.Table())
		if os.Getenv("CAIRN_TEST_LOG") != "" {
			_ = s.record.Dump(os.Stderr)
		}
	}
	if v.Ops.Accepted == 0 || v.Deliveries < v.Events {
		s.t.Errorf("seed %d: nothing happened:\n%s", s.seed, v.Table())
	}
	var faults []string
	for name, n := range s.injected {
		faults = append(faults, fmt.Sprintf("%s %d", name, n))
	}
	s.t.Logf("seed %d: %d hosts, %d leads, %d commits, %d do not count, %d accepted, %d rejected, %d unknown, %d refused, longest wait %v; %s",
		s.seed, len(s.hosts), v.Leads, v.Commits, v.Uncounted, v.Ops.Accepted, v.Ops.Rejected, v.Ops.Unknown, v.Ops.Refused,
		s.record.Unavailable(time.Time{}, time.Time{}, nil), strings.Join(faults, ", "))
}
