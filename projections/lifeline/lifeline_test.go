package lifeline_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/lifeline"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/threads"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// relay stands before a Postgres. A connection that it silences stays open at both ends, and nothing passes any more.
type relay struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	links []*link
}

type link struct {
	ends   [2]net.Conn
	silent atomic.Bool
}

func newRelay(t *testing.T, dsn string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))}
	r.running.Go(r.accept)
	t.Cleanup(r.close)
	return r, fmt.Sprintf("postgres://cairn@%s%s?sslmode=disable", l.Addr(), u.Path)
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", r.to)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{ends: [2]net.Conn{client, server}}
		r.mu.Lock()
		r.links = append(r.links, l)
		r.mu.Unlock()
		for i := range 2 {
			r.running.Go(func() { l.copy(l.ends[i], l.ends[1-i]) })
		}
	}
}

func (l *link) copy(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !l.silent.Load() && n > 0 {
			_, _ = to.Write(buffer[:n]) // who is gone is seen by the next read
		}
		if err == nil {
			continue
		}
		if !l.silent.Load() {
			to.Close()
		}
		return
	}
}

func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.silent.Store(true)
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, l := range r.links {
		l.ends[0].Close()
		l.ends[1].Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func open(t *testing.T, dsn string, patience time.Duration) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	lifeline.Attach(config, patience, 300*time.Millisecond)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestAStatementIsNotWaitedForForEver: the connection is given up, and the next one is sound.
func TestAStatementIsNotWaitedForForEver(t *testing.T) {
	r, dsn := newRelay(t, pgtest.DSN(t, migrations.Read))
	pool := open(t, dsn, time.Second)
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	r.silence()
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err == nil || t.Context().Err() != nil {
		t.Errorf("a half-open connection answered %v", err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the next connection: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(0.5)"); err != nil {
		t.Errorf("a statement that takes half the patience: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(short, "SELECT pg_sleep(5)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its user's own deadline: %v", err)
	}
}

// TestHalfOpenConnectionsStopNoReadModel: an engine, and whoever waits for it, notice that their connections are half-open,
// and go on over new ones; the locks that the old session holds at the server are given up.
func TestHalfOpenConnectionsStopNoReadModel(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	r, through := newRelay(t, dsn)
	pool := open(t, through, 2*time.Second)
	log := logtest.New(2)
	model := threads.New(projections.NewDB(pool))
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: log, Schema: logtest.Schema(), Projectors: []projections.Projector{model.Projector()}, Session: time.Second,
	})
	waiter := projections.NewWaiter(pool, projections.WithPatience(2*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	running.Go(func() { _ = waiter.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for round := range 2 {
		scope := domain.Scope(fmt.Sprintf("user-%d", round))
		c := log.Append(scope, domain.Fact{Stream: domain.NewStream("thread", "a"), Event: thread.Opened{}})
		logtest.Eventually(t, fmt.Sprintf("the read model goes on after %d silences", round), func() bool {
			return waiter.Wait(t.Context(), logtest.PositionOf(c), threads.Name) == nil
		})
		r.silence()
	}
}
