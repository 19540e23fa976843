package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/chaos/proxy"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a log on three brokers, a writer, projectors that can be stopped, and two gateways behind a proxy.
type stage struct {
	t       *testing.T
	cluster *kfake.Cluster
	config  kafka.Config
	pool    *pgxpool.Pool
	schema  *codec.Schema
	keys    *memory.Keys
	asker   *kafka.Asker
	events  *events.Model
	waiter  *projections.Waiter
	tailer  *kafka.Tailer
	ahead   time.Duration // of the gateways' clocks

	proxy          *proxy.Proxy
	gateways       [2]*gateway
	stopProjecting func()
}

// gateway is one process' worth: its own readers of the log, its own tail.
type gateway struct {
	server *httptest.Server
	stop   func()
}

// tokens are who may come in: "token-NAME" is the user NAME.
type tokens struct{}

func (tokens) Verify(token string) (accounts.Principal, error) {
	name, ok := strings.CutPrefix(token, "token-")
	if !ok {
		return accounts.Principal{}, accounts.ErrToken
	}
	return accounts.Principal{UserID: name, Scope: domain.User(name)}, nil
}

func (v tokens) Redeem(context.Context, string) (accounts.Principal, error) {
	return accounts.Principal{}, accounts.ErrToken
}

const partitions = 2

func newStage(t *testing.T) *stage {
	schema, err := codec.New(aggregates.All()...)
	check(t, err)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}))
	check(t, err)
	t.Cleanup(cluster.Close)
	s := &stage{
		t: t, cluster: cluster, schema: schema, pool: pgtest.Read(t), keys: memory.NewKeys(),
		config: kafka.Config{Seeds: cluster.ListenAddrs(), Topics: kafka.Topics{Partitions: partitions, Replication: 1}},
	}
	check(t, s.config.Ensure(t.Context()))
	states := memory.NewStates()
	s.config.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := states.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: s.config, Schema: schema, Keys: s.keys, States: states, Now: time.Now})
	check(t, err)
	s.asker, err = kafka.NewAsker(kafka.AskerConfig{Config: s.config, Schema: schema, Keys: s.keys, States: states})
	check(t, err)
	s.tailer, err = kafka.NewTailer(s.config)
	check(t, err)
	t.Cleanup(s.tailer.Close)
	db := projections.NewDB(s.pool)
	s.events = events.New(db, events.PartitionedBy(s.tailer.PartitionOf))
	s.waiter = projections.NewWaiter(s.pool)
	s.background(writer.Run)
	s.background(s.asker.Run)
	s.background(s.waiter.Run)
	s.stopProjecting = s.project()
	check(t, s.asker.Ready(t.Context()))
	s.proxy, err = proxy.Listen()
	check(t, err)
	t.Cleanup(s.proxy.Close)
	for n := range s.gateways {
		s.start(n)
	}
	return s
}

// project has the read models fed until stop is called.
func (s *stage) project() (stop func()) {
	db := projections.NewDB(s.pool)
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: s.pool, Tailer: s.tailer, Schema: s.schema, Log: slog.New(slog.DiscardHandler),
		Projectors: []projections.Projector{s.events.Projector(), openeffects.New(db).Projector(), requests.New(db).Projector()},
	})
	return s.background(engine.Run)
}

// scopes are two users whose events lie in two partitions.
func (s *stage) scopes() []domain.Scope {
	first := domain.User("ada")
	for n := 0; ; n++ {
		if other := domain.User(fmt.Sprint("bob", n)); s.tailer.PartitionOf(other) != s.tailer.PartitionOf(first) {
			return []domain.Scope{first, other}
		}
	}
}

// background runs something until the test ends, and waits for it.
func (s *stage) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("something that ran in the background ended with: %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// start starts a gateway and points the proxy to those that run.
func (s *stage) start(n int) {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	tailer, err := kafka.NewTailer(s.config)
	check(s.t, err)
	provisional, err := kafka.NewLive(s.config, s.keys)
	check(s.t, err)
	now := func() time.Time { return time.Now().Add(s.ahead) }
	hub := fanout.New(fanout.Config{
		Tailer: tailer, Live: provisional, Events: s.events, Keys: s.keys, Schema: s.schema, Log: log, Now: now,
		Ring: 64 << 10, // so that who was away for a second is behind it
	})
	db := projections.NewDB(s.pool)
	g := live.New(live.Config{
		Asker: s.asker, Fanout: hub, Keys: s.keys, Schema: s.schema, Events: s.events,
		Effects: openeffects.New(db), Requests: requests.New(db), Work: work.New(s.pool), Waiter: s.waiter, Accounts: tokens{},
		Version: "test", Log: log, Now: now, Timing: live.Timing{Ping: 300 * time.Millisecond, Pong: 5 * time.Second, Drain: time.Second},
	})
	stopHub, stopGateway := s.background(hub.Run), s.background(g.Run)
	one := &gateway{server: httptest.NewServer(g.Handler())}
	one.stop = sync.OnceFunc(func() {
		stopGateway()
		one.server.Close()
		stopHub()
		provisional.Close()
		tailer.Close()
	})
	s.t.Cleanup(one.stop)
	s.gateways[n] = one
	s.point()
}

// point has new connections go to the gateways that run.
func (s *stage) point() {
	var targets []proxy.Target
	for _, g := range s.gateways {
		if g != nil {
			targets = append(targets, proxy.TCP(g.server.Listener.Addr().String()))
		}
	}
	s.proxy.Point(targets...)
}

// restart ends a gateway in good order, and starts another in its place.
func (s *stage) restart(n int) {
	old := s.gateways[n]
	s.gateways[n] = nil
	s.point()
	old.stop()
	s.start(n)
}

// elsewhere moves every partition of the topics that matter to another broker.
func (s *stage) elsewhere(node func() int32) error {
	for _, topic := range []string{s.config.Topics.Log(), s.config.Topics.Commands()} {
		for p := range int32(partitions) {
			if err := s.cluster.MoveTopicPartition(topic, p, node()); err != nil {
				return err
			}
		}
	}
	return nil
}

// trim deletes what the log has up to the writer's stored checkpoint, which is beyond all that there was at an earlier time.
func (s *stage) trim(ctx context.Context, early, late []int64) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.config.Seeds...))
	check(s.t, err)
	defer client.Close()
	to := kadm.Offsets{}
	for p := range early {
		for early[p] < late[p] {
			at, err := s.config.Stored(ctx, int32(p))
			check(s.t, err)
			if at.Next > early[p] {
				to.AddOffset(s.config.Topics.Log(), int32(p), at.Next, -1)
				s.t.Logf("of partition %d the log begins at %d of %d; clients stood before %d", p, at.Next, late[p], early[p])
				break
			}
			pause(ctx, 100*time.Millisecond)
			check(s.t, ctx.Err())
		}
	}
	deleted, err := kadm.NewClient(client).DeleteRecords(ctx, to)
	check(s.t, err)
	check(s.t, deleted.Error())
}

// keep reads along, so that the log can be judged of which the broker has deleted the beginning. The function answers what
// there is when it is called.
func (s *stage) keep() func(context.Context) *history.Log {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.config.Seeds...), kgo.ConsumeTopics(s.config.Topics.Log()))
	check(s.t, err)
	var mu sync.Mutex
	var records []*kgo.Record
	more := make(chan struct{}, 1)
	stop := s.background(func(ctx context.Context) error {
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			mu.Lock()
			records = append(records, fetches.Records()...)
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
		}
		return nil
	})
	s.t.Cleanup(func() { stop(); client.Close() })
	return func(ctx context.Context) *history.Log {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, s.config.Topics.Log())
		check(s.t, err)
		for {
			mu.Lock()
			log := history.NewLog(partitions, records...)
			mu.Unlock()
			whole := true
			ends.Each(func(o kadm.ListedOffset) { whole = whole && log.Ends[o.Partition] >= o.Offset })
			if whole {
				return log
			}
			select {
			case <-more:
			case <-ctx.Done():
				s.t.Fatal(ctx.Err())
			}
		}
	}
}
