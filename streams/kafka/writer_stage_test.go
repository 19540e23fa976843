package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// tally is the aggregate of these tests: a number that grows.
type tally struct{ n, count int }

func (t tally) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{t.n, t.count}) }

func (t *tally) UnmarshalJSON(b []byte) error {
	var v [2]int
	err := json.Unmarshal(b, &v)
	t.n, t.count = v[0], v[1]
	return err
}

type tallyEvent interface{ tallyEvent() }

type added struct {
	By   int  `json:"by"`
	Sour bool `json:"sour,omitempty"` // folding it panics
	Note note `json:"-" sealed:"true"`
}

type note struct {
	Text string `json:"text"`
}

func (added) tallyEvent() {}

type tallyCommand interface {
	domain.Command
	tallyCommand()
}

// add grows a tally, and the others named by Also; by zero is refused.
type add struct {
	Tally string   `json:"tally"`
	By    int      `json:"by"`
	Also  []string `json:"also,omitempty"`
	Do    string   `json:"do,omitempty"`
	Note  note     `json:"-" sealed:"true"`
}

func (add) tallyCommand() {}

func (a add) Target() domain.Stream { return domain.NewStream("tally", a.Tally) }

func (a add) Reads() []domain.Stream {
	all := []domain.Stream{a.Target()}
	for _, other := range a.Also {
		all = append(all, domain.NewStream("tally", other))
	}
	return all
}

func (t tally) Evolve(e tallyEvent) tally {
	a := e.(added)
	if a.Sour {
		panic("sour")
	}
	if a.Note.Text != "" {
		panic("Evolve sees sealed content")
	}
	return tally{t.n + a.By, t.count + 1}
}

// decideTally splits what it adds in as many events as its release says.
func decideTally(release int) func(domain.View, tallyCommand) ([]domain.Fact, error) {
	return func(v domain.View, c tallyCommand) ([]domain.Fact, error) {
		a := c.(add)
		switch {
		case a.By == 0:
			return nil, domain.Reject("nothing", "nothing to add to %d", v.State(a.Target()).(tally).n)
		case a.Do == "panic":
			var none map[string]int
			none["x"] = 1
		case a.Do == "look":
			v.State("tally-unnamed")
		case a.Do == "stray":
			return []domain.Fact{{Stream: "tally-unnamed", Event: added{By: 1}}}, nil
		}
		var facts []domain.Fact
		for _, s := range a.Reads() {
			for range release {
				facts = append(facts, domain.Fact{Stream: s, Event: added{By: a.By, Sour: a.Do == "sour", Note: a.Note}})
			}
		}
		return facts, nil
	}
}

// life is the aggregate whose erasure ends a scope.
type life struct{}

type erased struct{}

type erase struct{ Who string }

func (e erase) Target() domain.Stream { return domain.NewStream("account", e.Who) }

func (l life) Decide(erase) ([]erased, error) { return []erased{{}}, nil }
func (l life) Evolve(erased) life             { return l }

// release is the schema of a program that splits what it adds in n events.
func release(t testing.TB, n, fold int) *codec.Schema {
	t.Helper()
	schema, err := codec.New(
		domain.Across[tally, tallyCommand, tallyEvent]("tally", fold,
			[]domain.Kind{domain.Named[add]("tally.add")}, []domain.Kind{domain.Named[added]("tally.added")}, decideTally(n)),
		domain.Single[life, erase, erased]("account", 1,
			[]domain.Kind{domain.Named[erase]("account.erase")}, []domain.Kind{domain.Named[erased]("account.erased")}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

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
}

func newStage(t testing.TB, partitions int32) *stage {
	t.Helper()
	s := &stage{t: t, network: &kfake.VirtualNetwork{}, states: memory.NewStates(), keys: memory.NewKeys()}
	var err error
	s.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(s.network.Listen))
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
	network *kfake.VirtualNetwork
	states  streams.States
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	conns  map[*cutConn]bool
	frozen chan struct{} // nil: it runs; else closed when it goes on
	dead   bool
	away   bool // its store
}

var errCut = errors.New("cut off")

// start runs a writer of a release on a host of its own.
func (s *stage) start(change func(*kafka.WriterConfig)) *host {
	s.t.Helper()
	h := &host{network: s.network, states: s.states, done: make(chan struct{}), conns: map[*cutConn]bool{}}
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
	h.resume()
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
	h.mu.Lock()
	h.dead = true
	for c := range h.conns {
		c.Conn.Close()
	}
	if h.frozen != nil {
		close(h.frozen)
		h.frozen = nil
	}
	h.mu.Unlock()
	h.stop()
}

// pause stops the writer as a stalled machine does; resume lets it go on where it was.
func (h *host) pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen == nil && !h.dead {
		h.frozen = make(chan struct{})
	}
}

func (h *host) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen != nil {
		close(h.frozen)
		h.frozen = nil
	}
}

// storeAway says whether the host reaches its store.
func (h *host) storeAway(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
}

// gate waits while the host is stopped.
func (h *host) gate() error {
	for {
		h.mu.Lock()
		frozen, dead := h.frozen, h.dead
		h.mu.Unlock()
		if dead {
			return errCut
		}
		if frozen == nil {
			return nil
		}
		<-frozen
	}
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

func (h *host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := h.gate(); err != nil {
		return nil, err
	}
	c, err := h.network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	cut := &cutConn{Conn: c, host: h}
	h.conns[cut] = true
	return cut, nil
}

// drop cuts every connection once: answers on their way are lost, what was asked may have been done.
func (h *host) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		c.Conn.Close()
		delete(h.conns, c)
	}
}

type cutConn struct {
	net.Conn
	host *host
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.host.gate(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gone := c.host.gate(); gone != nil {
		return 0, gone
	}
	return n, err
}

// askers begins an asker in a context of its own.
func (s *stage) asker() (ask *kafka.Asker, stop func()) {
	s.t.Helper()
	ask, err := kafka.NewAsker(kafka.AskerConfig{Config: s.config, Schema: release(s.t, 1, 1), Keys: s.keys, States: s.states})
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

// truth is the whole log as every reader must understand it.
type truth struct {
	commits []streams.Commit
	answers map[string]streams.AnswerRow
	tallies map[streams.StreamKey]int
	leads   int
}

// check reads the log to its end and fails on whatever no history may show.
func (s *stage) check() truth {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := truth{answers: map[string]streams.AnswerRow{}, tallies: map[streams.StreamKey]int{}}
	for p := range s.config.Topics.N() {
		s.checkPartition(ctx, p, &all)
	}
	return all
}

func (s *stage) checkPartition(ctx context.Context, partition int32, all *truth) {
	t := s.t
	t.Helper()
	tailer, err := kafka.NewTailer(s.config, release(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer tailer.Close()
	end, err := tailer.End(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	positions := map[domain.Scope]uint64{}
	times := map[domain.Scope]string{}
	versions := map[streams.StreamKey]uint64{}
	hashes := map[streams.StreamKey][]byte{}
	reader, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.config.Seeds...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.config.Topics.Log(): {partition: kgo.NewOffset().At(0)}}),
	}, s.config.Options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a := streams.NewAcceptance()
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("reading the log: %v, at %d of %d", err, next, end)
		}
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			h, err := kafka.ReadHeaders(r.Headers)
			if err != nil {
				t.Fatal(err)
			}
			var counts bool
			if a, counts = a.Accept(h.Mark); !counts {
				continue
			}
			if h.Mark.Sort != streams.SortCommit {
				all.leads++
				continue
			}
			c, err := codec.DecodeCommit(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			codec.Locate(&c, partition, r.Offset)
			if c.Mark() != h.Mark {
				t.Fatalf("headers say %+v, the commit %+v", h.Mark, c.Mark())
			}
			if c.CommandID != "" {
				if _, twice := all.answers[c.CommandID]; twice {
					t.Fatalf("command %s was decided twice", c.CommandID)
				}
				all.answers[c.CommandID] = h.Answer
			}
			if c.DecidedAt < times[c.Scope] {
				t.Fatalf("decided_at of %s runs backwards: %s after %s", c.Scope, c.DecidedAt, times[c.Scope])
			}
			times[c.Scope] = c.DecidedAt
			for _, e := range c.Events {
				key := streams.StreamKey{Scope: c.Scope, Stream: e.Stream}
				if positions[c.Scope]++; e.Position != positions[c.Scope] {
					t.Fatalf("position %d of %s where %d is the next", e.Position, c.Scope, positions[c.Scope])
				}
				if versions[key]++; e.Version != versions[key] {
					t.Fatalf("version %d of %s where %d is the next", e.Version, e.Stream, versions[key])
				}
				prev := hashes[key]
				if prev == nil {
					prev = codec.Genesis(e.Stream)
				}
				if !bytes.Equal(codec.Chain(prev, e), e.Hash) {
					t.Fatalf("the chain of %s breaks at version %d", e.Stream, e.Version)
				}
				hashes[key] = e.Hash
				if e.Type == "tally.added" {
					var body added
					if err := json.Unmarshal(e.Data, &body); err != nil {
						t.Fatal(err)
					}
					all.tallies[key] += body.By
				}
			}
			all.commits = append(all.commits, c)
		}
	}
	s.checkStates(ctx, partition, all, versions, hashes, positions)
}

// checkStates compares what is stored with the fold of the log; it may be behind, but never beside it.
func (s *stage) checkStates(ctx context.Context, partition int32, all *truth, versions map[streams.StreamKey]uint64, hashes map[streams.StreamKey][]byte, positions map[domain.Scope]uint64) {
	var what streams.Lookup
	for key := range versions {
		what.Streams = append(what.Streams, key)
	}
	for scope := range positions {
		what.Scopes = append(what.Scopes, scope)
	}
	stored, err := s.states.Load(ctx, partition, what)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range stored.States {
		key := streams.StreamKey{Scope: row.Scope, Stream: row.Stream}
		if row.Version > versions[key] {
			s.t.Fatalf("stored version %d of %s, the log has %d", row.Version, row.Stream, versions[key])
		}
		if row.Version == versions[key] && !bytes.Equal(row.Hash, hashes[key]) {
			s.t.Fatalf("stored hash of %s is not the log's", row.Stream)
		}
		if strings.HasPrefix(string(row.Stream), "tally-") && row.Version == versions[key] {
			var state tally
			if err := json.Unmarshal(row.State, &state); err != nil || state.n != all.tallies[key] || uint64(state.count) != row.Version {
				s.t.Fatalf("stored state of %s is %s, the log adds up to %d", row.Stream, row.State, all.tallies[key])
			}
		}
	}
	for _, row := range stored.Scopes {
		if row.Position > positions[row.Scope] {
			s.t.Fatalf("stored position %d of %s, the log has %d", row.Position, row.Scope, positions[row.Scope])
		}
	}
}

// storeAll stores the fold of the log as another writer would that reads it just now.
func (s *stage) storeAll() {
	s.t.Helper()
	tailer, err := kafka.NewTailer(s.config, release(s.t, 1, 1))
	if err != nil {
		s.t.Fatal(err)
	}
	defer tailer.Close()
	ctx := context.Background()
	next, err := tailer.Live(ctx, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	now, err := s.states.Load(ctx, 0, streams.Lookup{})
	if err != nil {
		s.t.Fatal(err)
	}
	f := streams.Flush{Expected: now.Checkpoint, Next: next}
	all := s.check()
	for _, c := range all.commits {
		f.Answers = append(f.Answers, all.answers[c.CommandID])
		for _, e := range c.Events {
			state, _ := json.Marshal(tally{all.tallies[streams.StreamKey{Scope: c.Scope, Stream: e.Stream}], int(e.Version)})
			f.States = append(f.States, streams.StateRow{Scope: c.Scope, Stream: e.Stream, Version: e.Version, Hash: e.Hash, Fold: 1, State: state})
			f.Scopes = append(f.Scopes, streams.ScopeRow{Scope: c.Scope, Position: e.Position, DecidedAt: c.DecidedAt})
		}
	}
	if err := s.states.Store(ctx, f); err != nil {
		s.t.Fatal(err)
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
