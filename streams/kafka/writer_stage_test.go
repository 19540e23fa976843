package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// The client's zstd decoders end in finalizers, which are outside of virtual time.
func noZstd() []kgo.Opt { return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())} }

// stage is a cluster in virtual time and what writers share.
type stage struct {
	t       testing.TB
	network *kfake.VirtualNetwork
	cluster *kfake.Cluster
	config  kafka.Config
	states  *memory.States
	keys    *memory.Keys
	log     *slog.Logger
	hosts   []*host
	ask     *kafka.Asker
	shared  streams.States // what hosts store in, if not states
	latency time.Duration  // of each request of a host
}

func newStage(t testing.TB, partitions int32) *stage {
	t.Helper()
	return newStageOf(t, 1, partitions)
}

func newStageOf(t testing.TB, brokers int, partitions int32) *stage {
	t.Helper()
	ports := []int{9092, 9093, 9094}[:brokers]
	s := &stage{t: t, network: &kfake.VirtualNetwork{}, states: memory.NewStates(), keys: memory.NewKeys()}
	var err error
	s.cluster, err = kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(s.network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	s.log = slog.New(slog.DiscardHandler)
	if os.Getenv("CAIRN_TEST_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	s.config = kafka.Config{
		Seeds: s.cluster.ListenAddrs(), Topics: kafka.Topics{Partitions: partitions},
		Options: []kgo.Opt{kgo.Dialer(s.network.DialContext)}, EachOptions: noZstd,
	}
	if err := s.config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// close ends all writers in good order, and the cluster.
func (s *stage) close() {
	for _, h := range s.hosts {
		h.shutdown()
	}
	s.cluster.Close()
}

// host is where a writer runs: it can be cut off for a while, or for ever.
type host struct {
	*kafka.Writer
	*line
	states streams.States
	stop   context.CancelFunc
	done   chan struct{}
	away   bool // its store
	silent int  // so many questions to it are never answered
}

// start runs a writer of a release on a host of its own.
func (s *stage) start(change func(*kafka.WriterConfig)) *host {
	s.t.Helper()
	h := &host{line: newLine(s.network), states: s.states, done: make(chan struct{})}
	h.latency = s.latency
	if s.shared != nil {
		h.states = s.shared
	}
	config := kafka.WriterConfig{
		Config: s.config, Schema: release(s.t, 1, 1), Keys: s.keys, States: h,
	}
	config.Log = s.log
	config.Options = []kgo.Opt{kgo.Dialer(h.dial)}
	if change != nil {
		change(&config)
	}
	w, err := kafka.NewWriter(config)
	if err != nil {
		s.t.Fatal(err)
	}
	h.Writer = w
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	s.hosts = append(s.hosts, h)
	go func() {
		defer close(h.done)
		if err := w.Run(ctx); err != nil {
			s.t.Errorf("writer: %v", err)
		}
	}()
	return h
}

// shutdown ends the writer in good order.
func (h *host) shutdown() {
	h.mend()
	h.stop()
	<-h.done
}

// gone reports whether the writer has ended, or was killed.
func (h *host) gone() bool {
	select {
	case <-h.done:
		return true
	default:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// kill ends the writer as a crash does: nothing of it reaches anybody any more.
func (h *host) kill() {
	h.sever()
	h.stop()
}

// storeAway says whether the host reaches its store.
func (h *host) storeAway(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
}

// storeSilent has the store leave so many questions without an answer, as on connections whose far side is gone.
func (h *host) storeSilent(questions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = questions
}

// heard reports whether a question reaches the store.
func (h *host) heard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent == 0 {
		return true
	}
	h.silent--
	return false
}

func (h *host) storeGate() error {
	if err := h.gate(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return errCut
	}
	return nil
}

// Load implements streams.States.
func (h *host) Load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	if err := h.storeGate(); err != nil {
		return streams.Snapshot{}, err
	}
	if !h.heard() {
		<-ctx.Done()
		return streams.Snapshot{}, ctx.Err()
	}
	found, err := h.states.Load(ctx, partition, what)
	if err := h.gate(); err != nil {
		return streams.Snapshot{}, err
	}
	return found, err
}

// Store implements streams.States.
func (h *host) Store(ctx context.Context, f streams.Flush) error {
	if err := h.storeGate(); err != nil {
		return err
	}
	return h.states.Store(ctx, f)
}

// asker begins an asker in a context of its own.
func (s *stage) asker() (ask *kafka.Asker, stop func()) {
	s.t.Helper()
	return s.askerOn(s.config)
}

func (s *stage) askerOn(config kafka.Config) (ask *kafka.Asker, stop func()) {
	s.t.Helper()
	ask, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: release(s.t, 1, 1), Keys: s.keys, States: s.states})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := ask.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("asker: %v", err)
		}
	}()
	return ask, func() { cancel(); <-done }
}

// wish is a command of these tests; its request is its id.
func wish(scope domain.Scope, request string, body domain.Command) streams.Command {
	return streams.Command{
		Scope: scope, ID: streams.CommandID(scope, request), Actor: domain.Actor{Kind: domain.ActorUser, ID: "u"},
		Request: []byte(request), Body: body,
	}
}

// leading waits until somebody of hosts leads partition 0.
func leading(hosts ...*host) {
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		for _, h := range hosts {
			for _, p := range h.Stats() {
				if p.Phase == kafka.Leading {
					tick.Stop()
					return
				}
			}
		}
	}
}

func mustAsk(t testing.TB, ask streams.Asker, c streams.Command) streams.Answer {
	t.Helper()
	answer, err := ask.Ask(context.Background(), c)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return answer
}

func code(err error) string {
	var r *domain.Rejection
	if errors.As(err, &r) {
		return r.Code
	}
	return fmt.Sprint(err)
}
