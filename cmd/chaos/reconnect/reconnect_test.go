package reconnect_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/follow"
	"github.com/cairnhq/cairn/cmd/chaos/reconnect"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// seed is SEED, or drawn.
func seed(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	n := rand.Uint64() >> 33
	if given, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		n = given
	}
	t.Logf("SEED=%d", n)
	return n, rand.New(rand.NewPCG(n, 0))
}

// pause lets d go by, or as much as there is of the test.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watch is a set of witnesses, each of which is online or not.
type watch struct {
	t         *testing.T
	witnesses []*reconnect.Witness
	offline   []func() // ends what was begun, nil: it is offline
}

func (w *watch) online(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.witnesses[i].Online(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.offline[i] = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(w.offline[i])
}

func (s *stage) watch(w *reconnect.Writes, recorder *history.Recorder) *watch {
	all := &watch{t: s.t}
	for _, scope := range w.Scopes {
		for n, framing := range []follow.Framing{follow.Batched, follow.Single} {
			c := reconnect.Config{
				Name: fmt.Sprintf("witness %d of %s", n, scope), URL: "http://" + s.proxy.Addr(), Framing: framing, Scope: scope, Whole: true, Late: n == 0,
				Token: func(context.Context) (string, error) {
					return "token-" + strings.TrimPrefix(string(scope), "user-"), nil
				},
				Silence: 5 * time.Second, MaxBackoff: 200 * time.Millisecond, History: recorder, Log: slog.New(slog.DiscardHandler),
			}
			if n == 1 {
				c.Types = []string{"thread.opened"}
				for of := range w.Threads {
					c.Streams = append(c.Streams, w.Stream(of))
				}
			}
			all.witnesses = append(all.witnesses, reconnect.NewWitness(c))
			all.offline = append(all.offline, nil)
		}
	}
	return all
}

// TestReceivedIsWhatWasCommitted: connections are cut at any byte, gateways restart, projectors stand still, partitions move,
// clients are away, and writes go on; each client is given every event of its streams once, in order, with the chain whole.
func TestReceivedIsWhatWasCommitted(t *testing.T) {
	_, r := seed(t)
	s := newStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	recorder := history.New()
	writes := &reconnect.Writes{Asker: s.asker, Scopes: s.scopes(), Threads: 3, Rate: 250, Run: "law"}
	check(t, writes.Open(ctx))
	all := s.watch(writes, recorder)
	for i := range all.witnesses {
		all.online(i)
	}
	for _, w := range all.witnesses {
		check(t, w.Begun(ctx))
	}
	var mu sync.Mutex // of fray, which the proxy asks
	fray := rand.New(rand.NewPCG(r.Uint64(), 0))
	s.proxy.Fray(func() (up, down int64) {
		mu.Lock()
		defer mu.Unlock()
		return int64(fray.IntN(4000)), int64(fray.IntN(120_000))
	})
	writing, enough := context.WithCancel(ctx)
	defer enough()
	var going sync.WaitGroup
	going.Go(func() { writes.Write(writing, ctx) })
	projecting, began := true, time.Now()
	injuries := map[string]func(){
		"cut":     func() { s.proxy.Cut() },
		"silence": func() { s.proxy.Silence() },
		"restart": func() { s.restart(r.IntN(2)) },
		"project": func() {
			if projecting {
				s.stopProjecting()
			} else {
				s.stopProjecting = s.project()
			}
			projecting = !projecting
		},
		"move": func() { check(t, s.elsewhere(func() int32 { return r.Int32N(3) })) },
		"away": func() {
			if i := r.IntN(len(all.witnesses)); all.offline[i] == nil {
				all.online(i)
			} else {
				all.offline[i]()
				all.offline[i] = nil
			}
		},
		"postgres": func() {
			// It cuts its own connection as well, so that an error is what it should answer.
			_, _ = s.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()`)
		},
	}
	names := []string{"cut", "silence", "restart", "project", "move", "away", "postgres"}
	for round := range 2 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			injuries[name]()
			pause(ctx, 100*time.Millisecond+time.Duration(r.IntN(250))*time.Millisecond)
		}
		t.Logf("round %d: %v", round, names)
	}
	enough()
	going.Wait()
	t.Logf("injured for %s", time.Since(began).Round(time.Second/10))
	s.proxy.Fray(nil)
	s.proxy.Cut() // those that are half-open would be noticed, too, in a while
	for i := range all.witnesses {
		if all.offline[i] == nil {
			all.online(i)
		}
	}
	s.judge(ctx, all, recorder)
	t.Logf("%d commands were acknowledged, %d attempts were not; projectors ran at the end: %v", writes.Committed(), writes.Failed(), projecting)
}

// judge waits until all are level, and holds what they were given against the log.
func (s *stage) judge(ctx context.Context, all *watch, recorder *history.Recorder) {
	s.t.Helper()
	logs, heads, err := reconnect.Read(ctx, s.config)
	check(s.t, err)
	s.hold(ctx, all, recorder, logs, heads)
}

func (s *stage) hold(ctx context.Context, all *watch, recorder *history.Recorder, logs []*history.Log, heads reconnect.Heads) {
	s.t.Helper()
	all.level(ctx, heads)
	for _, stop := range all.offline {
		stop()
	}
	wrong, deliveries := reconnect.Judge(logs, recorder, all.witnesses)
	for _, text := range wrong {
		s.t.Error(text)
	}
	for _, w := range all.witnesses {
		s.t.Logf("%s: %+v", w.Name, w.Counts())
	}
	s.t.Logf("%d events in the log, %d deliveries", heads.Events, deliveries)
}

// level waits until all have everything.
func (w *watch) level(ctx context.Context, heads reconnect.Heads) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, one := range w.witnesses {
		check(w.t, one.Level(ctx, heads.Positions[one.Scope], heads.Of(one.Scope)))
	}
}

// TestAMonthAwayIsMadeUpFor: clients come back whose place is below everything that the log still keeps, by clocks a month
// later, and are given all that they missed from what is stored.
func TestAMonthAwayIsMadeUpFor(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	kept := s.keep()
	recorder := history.New()
	writes := &reconnect.Writes{Asker: s.asker, Scopes: s.scopes(), Threads: 3, Rate: 500, Run: "month"}
	check(t, writes.Open(ctx))
	all := s.watch(writes, recorder)
	write := func(d time.Duration) {
		writing, enough := context.WithTimeout(ctx, d)
		defer enough()
		writes.Write(writing, ctx)
	}
	for i := range all.witnesses {
		all.online(i)
	}
	write(300 * time.Millisecond)
	early, heads, err := reconnect.Read(ctx, s.config)
	check(t, err)
	all.level(ctx, heads)
	before := heads.Events
	for _, stop := range all.offline {
		stop()
	}
	writes.Run = "month-after"
	check(t, writes.Open(ctx))
	write(time.Second)
	logs, heads, err := reconnect.Read(ctx, s.config)
	check(t, err)
	for scope, head := range heads.Positions {
		for at := uint64(0); at < head; {
			check(t, ctx.Err())
			page, err := s.events.Page(ctx, streams.StreamKey{Scope: scope}, head, 1)
			check(t, err)
			at = page.Head
		}
	}
	s.ahead = 30 * 24 * time.Hour
	for n := range s.gateways {
		s.restart(n)
	}
	s.trim(ctx, early[0].Ends, logs[1].Ends)
	for i := range all.witnesses {
		all.online(i)
	}
	all.level(ctx, heads)
	log := kept(ctx) // devices have said hello meanwhile
	s.hold(ctx, all, recorder, []*history.Log{log, log}, reconnect.HeadsOf(log))
	t.Logf("%d of %d events were missed", heads.Events-before, heads.Events)
}
