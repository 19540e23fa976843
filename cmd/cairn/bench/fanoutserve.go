package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// fanoutTitle is what an event of the fan-out benchmarks says, before its number: a title, sealed as every content is.
const fanoutTitle = "What was said about the week of the fair, and who brings the tent "

// ServeFanout is a whole Cairn in this process that writes what orders on in tell it to, as production does: each event is a
// command that a writer decides, seals and appends. It answers on out, and ends with in.
func ServeFanout(ctx context.Context, config app.Config, in io.Reader, out, log io.Writer) error {
	config.Roles = app.AllRoles()
	s := &fanoutServer{committed: newCommitTimes(), answers: json.NewEncoder(out)}
	config.LogHooks = []kgo.Hook{s.committed}
	running, err := app.Start(ctx, config, "bench", app.NewLog(config, log))
	if err != nil {
		return err
	}
	defer running.Stop()
	s.asker = running.Asker()
	if err := s.answers.Encode(answered{URL: running.URL()}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("bench: an order that can't be read: %w", err)
		}
		if o.Do == orderUpTo {
			s.allow(o.UpTo)
			continue
		}
		a, err := s.obey(ctx, o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := s.answers.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// commitTimes notes when the log acknowledged the commits of the commands that it was told of.
type commitTimes struct {
	mu   sync.Mutex
	into map[string]*int64 // by command, where the time of its commit belongs
	none *sync.Cond        // nothing is awaited any more
}

func newCommitTimes() *commitTimes {
	t := &commitTimes{into: map[string]*int64{}}
	t.none = sync.NewCond(&t.mu)
	return t
}

func (t *commitTimes) expect(id string, into *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.into[id] = into
}

// all waits until every command that was told of has its time: an answer may come before it, by the way of who reads the log.
func (t *commitTimes) all(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.none.Broadcast)
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.into) > 0 {
		if err := ctx.Err(); err != nil {
			left := len(t.into)
			clear(t.into)
			return fmt.Errorf("of %d commits nobody said when they were acknowledged: %w", left, err)
		}
		t.none.Wait()
	}
	return nil
}

// OnProduceRecordUnbuffered is called by every client of the log when a record was acknowledged, or will never be.
func (t *commitTimes) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if err != nil || !strings.HasSuffix(r.Topic, ".log") {
		return
	}
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range r.Headers {
		if h.Key != kafka.HeaderCommandID {
			continue
		}
		if into := t.into[string(h.Value)]; into != nil {
			*into = now
			delete(t.into, string(h.Value))
		}
	}
	if len(t.into) == 0 {
		t.none.Broadcast()
	}
}

type fanoutServer struct {
	asker     streams.Asker
	committed *commitTimes
	answers   *json.Encoder

	flooding sync.WaitGroup
	mu       sync.Mutex
	next     int64 // the number that is published next
	upTo     int64
	halted   bool
	failed   error
	more     *sync.Cond
}

func (s *fanoutServer) obey(ctx context.Context, o order) (a answered, err error) {
	switch o.Do {
	case orderPublish:
		return s.publish(ctx, o)
	case orderFlood:
		s.flood(ctx, o)
	case orderHalt:
		s.halt()
		a.Last, err = s.next, s.failed
	case orderMemory:
		for range 3 { // pools need two
			runtime.GC()
		}
		debug.FreeOSMemory()
		a.Bytes, err = resident()
		a.Goroutines = runtime.NumGoroutine()
	case orderUsed:
		a.Bytes, err = resident()
	case orderCPU:
		a.CPU = int64(processTime())
	case orderProfile:
		err = profile(ctx, o)
	default:
		err = fmt.Errorf("there is no order %q", o.Do)
	}
	return a, err
}

// command is the rename that is event n.
func fanoutCommand(o order, n int64) streams.Command {
	_, id, _ := strings.Cut(o.Stream, "-")
	return streams.Command{
		Scope: o.Scope, ID: streams.CommandID(o.Scope, uuid.NewString()), Minted: true,
		Body:  thread.Rename{On: thread.On{Thread: id}, Title: thread.Title{Text: fanoutTitle + sockets.Mark(n)}},
		Actor: domain.Actor{Kind: domain.ActorUser, ID: "bench"},
	}
}

// askersOfFanout ask at once where it is written as fast as it goes.
const askersOfFanout = 64

// publish writes at a steady rate, however long each takes.
func (s *fanoutServer) publish(ctx context.Context, o order) (answered, error) {
	a := answered{Committed: make([]int64, o.Count), Asked: make([]int64, o.Count)}
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	slots := make(chan struct{}, askersOfFanout)
	began := time.Now()
	for i := range o.Count {
		if o.Rate > 0 {
			due := began.Add(time.Duration(float64(i) / o.Rate * float64(time.Second)))
			if wait := time.Until(due); wait > 0 {
				<-time.After(wait)
			}
		}
		slots <- struct{}{}
		c := fanoutCommand(o, o.From+i)
		s.committed.expect(c.ID, &a.Committed[i])
		a.Asked[i] = time.Now().UnixNano()
		group.Go(func() {
			if _, err := s.asker.Ask(ctx, c); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			<-slots
		})
	}
	group.Wait()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := failed.Load(); err != nil {
		return answered{}, *err
	}
	return a, s.committed.all(ctx)
}

// flood writes as fast as it goes and is allowed, until it is halted.
func (s *fanoutServer) flood(ctx context.Context, o order) {
	s.next, s.upTo, s.halted, s.failed = o.From, o.UpTo, false, nil
	s.more = sync.NewCond(&s.mu)
	for range askersOfFanout {
		s.flooding.Go(func() {
			for {
				n, ok := s.take()
				if !ok {
					return
				}
				if _, err := s.asker.Ask(ctx, fanoutCommand(o, n)); err != nil {
					s.mu.Lock()
					s.failed, s.halted = err, true
					s.mu.Unlock()
					s.more.Broadcast()
					return
				}
			}
		})
	}
}

func (s *fanoutServer) take() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next >= s.upTo && !s.halted {
		s.more.Wait()
	}
	if s.halted {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *fanoutServer) allow(upTo int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = max(s.upTo, upTo)
	s.more.Broadcast()
}

func (s *fanoutServer) halt() {
	s.mu.Lock()
	s.halted = true
	s.mu.Unlock()
	s.more.Broadcast()
	s.flooding.Wait()
}

// resident is the memory of this process.
func resident() (int64, error) {
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(procField("/proc/self/status", "VmRSS"), "kB")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: this system does not tell the memory of a process (/proc/self/status)")
	}
	return kib << 10, nil
}

// profile writes a profile of the processor for a while, beside what else is told, or, in no time, one of what is allocated.
func profile(ctx context.Context, o order) error {
	f, err := os.Create(o.Path)
	if err != nil {
		return err
	}
	if o.Seconds == 0 {
		return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	length, cancel := context.WithTimeout(ctx, time.Duration(o.Seconds*float64(time.Second)))
	context.AfterFunc(length, func() {
		defer cancel()
		pprof.StopCPUProfile()
		f.Close()
	})
	return nil
}
