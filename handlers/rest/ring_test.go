package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/effects"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// ring is the whole product in one process: broker, writer, Postgres, vault, projectors, gateway, the
// offline model, and the HTTP interface on a real server.
type ring struct {
	t      *testing.T
	server *httptest.Server
	router *echo.Echo
	says   document
	pool   *pgxpool.Pool
	log    *logs
	live   streams.Live
}

type option func(*rest.Config)

func newRing(t *testing.T, options ...option) *ring {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	check(t, err)
	config := kafkatest.Broker(t)
	check(t, config.Ensure(t.Context()))
	pool, master := pgtest.Read(t), bytes.Repeat([]byte{7}, vault.MasterKeySize)
	keys := vault.Open(pgtest.Vault(t), master, time.Now)
	states := memory.NewStates()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states, Now: time.Now})
	check(t, err)
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	check(t, err)
	tailer, err := kafka.NewTailer(config)
	check(t, err)
	t.Cleanup(tailer.Close)
	provisional, err := kafka.NewLive(config, keys)
	check(t, err)
	t.Cleanup(provisional.Close)

	db := projections.NewDB(pool)
	e, th, ru, de := events.New(db, events.PartitionedBy(tailer.PartitionOf)), threads.New(db), runs.New(db), devices.New(db)
	rq := requests.New(db)
	open, ti, wo, waiter := openeffects.New(db), timers.New(db), work.New(pool), projections.NewWaiter(pool, projections.WithLog(tailer, config.Topics.CurrentEra()))
	engine := projections.NewEngine(projections.EngineConfig{Pool: pool, Tailer: tailer, Schema: schema, Projectors: []projections.Projector{
		e.Projector(), th.Projector(), ru.Projector(), de.Projector(), rq.Projector(), open.Projector(), ti.Projector()}})
	people := accounts.New(accounts.Config{Vault: keys, Asker: asker, Master: master, Now: time.Now, Cost: accounts.Cost{MemoryKiB: 8, Passes: 1, Lanes: 1}})
	quiet := slog.New(slog.DiscardHandler)
	hub := fanout.New(fanout.Config{Tailer: tailer, Live: provisional, Events: e, Keys: keys, Schema: schema, Log: quiet})
	gateway := live.New(live.Config{Asker: asker, Fanout: hub, Schema: schema, Keys: keys, Events: e, Effects: open, Requests: rq, Work: wo,
		Waiter: waiter, Accounts: people, Version: "test", Log: quiet, Timing: live.Timing{Sweep: 200 * time.Millisecond}})
	worker := effects.Config{Asker: asker, Effects: open, Timers: ti, Work: wo, Events: e, Waiter: waiter, Schema: schema, Keys: keys, Live: provisional,
		Tick: 200 * time.Millisecond, Log: quiet}
	worker.Kinds = effects.BuiltIn(worker, model.Offline(), embed.Hashed{})

	r := &ring{t: t, says: readDocument(t), pool: pool, log: &logs{}, live: provisional}
	for _, run := range []func(context.Context) error{writer.Run, asker.Run, engine.Run, waiter.Run, hub.Run, gateway.Run, effects.New(worker).Run} {
		r.background(run)
	}
	check(t, asker.Ready(t.Context()))
	settings := rest.Config{Accounts: people, Asker: asker, Events: e, Threads: th, Runs: ru, Devices: de, Requests: rq, Effects: open, Work: wo, Waiter: waiter,
		Schema: schema, Keys: keys, Gateway: gateway, Fanout: hub, Embedder: embed.Hashed{}, Log: slog.New(slog.NewJSONHandler(r.log, nil)),
		Limits: rest.Limits{Commands: 1000, CommandBurst: 1000, Sessions: 1000, SessionBurst: 1000}}
	for _, o := range options {
		o(&settings)
	}
	handler, err := rest.New(settings)
	check(t, err)
	r.router = handler.(*echo.Echo)
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/api/v1/ws/device", gateway.Handler())
	r.server = httptest.NewServer(mux)
	t.Cleanup(r.server.Close)
	return r
}

// background runs something until it is stopped or the test ends.
func (r *ring) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error { return run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			r.t.Errorf("something that ran in the background ended with: %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// logs keeps what was logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// user is somebody with an account, or, with the zero token, nobody.
type user struct {
	r                        *ring
	token, refresh, scope    string
	email, password, account string
}

func (r *ring) nobody() *user { return &user{r: r} }

func (r *ring) user(name string) *user {
	r.t.Helper()
	u := &user{r: r, email: name + "@example.com", password: "correct horse " + name}
	got := u.post("/api/v1/accounts", map[string]string{"email": u.email, "password": u.password}).want(http.StatusCreated)
	u.token, u.refresh = got.text("access_token"), got.text("refresh_token")
	u.scope, u.account = got.text("account", "scope"), got.text("account", "user_id")
	return u
}

// answer is a response, read whole.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

type header struct{ name, value string }

func (u *user) do(method, path string, body any, headers ...header) *answer {
	u.r.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		check(u.r.t, err)
		reader = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(u.r.t.Context(), method, u.r.server.URL+path, reader)
	check(u.r.t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if u.token != "" {
		request.Header.Set("Authorization", "Bearer "+u.token)
	}
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	check(u.r.t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	check(u.r.t, err)
	a := &answer{t: u.r.t, what: method + " " + path, status: response.StatusCode, header: response.Header, raw: raw}
	_ = json.Unmarshal(raw, &a.body) // not all answers are objects
	for _, fault := range u.r.says.holds(method, path, a) {
		u.r.t.Errorf("%s: status %d is not what openapi.yaml says: %s: %.300s", a.what, a.status, fault, raw)
	}
	return a
}

func (u *user) get(path string, headers ...header) *answer {
	u.r.t.Helper()
	return u.do(http.MethodGet, path, nil, headers...)
}

func (u *user) post(path string, body any, headers ...header) *answer {
	u.r.t.Helper()
	return u.do(http.MethodPost, path, body, headers...)
}

// see is a get that has what an answer's Position says.
func (u *user) see(path string, a *answer) *answer {
	u.r.t.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	return u.get(path + join + "min_position=" + a.header.Get("Position")).want(http.StatusOK)
}

func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %.400s", a.what, a.status, status, a.raw)
	}
	return a
}

// problem wants a problem of that code, and that it is whole.
func (a *answer) problem(status int, code string) *answer {
	a.t.Helper()
	a.want(status)
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		a.t.Errorf("%s: a problem as %q", a.what, kind)
	}
	if a.body["code"] != code || a.body["status"] != float64(status) || a.body["type"] != "/problems/"+code || a.text("title") == "" || a.text("traceId") == "" {
		a.t.Errorf("%s: problem %s, want %s", a.what, a.raw, code)
	}
	return a
}

// at is the value under names.
func (a *answer) at(names ...string) any {
	a.t.Helper()
	var v any = a.body
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			a.t.Fatalf("%s: no %v in %.400s", a.what, names, a.raw)
		}
		v = object[name]
	}
	return v
}

func (a *answer) text(names ...string) string {
	a.t.Helper()
	text, _ := a.at(names...).(string)
	return text
}

func (a *answer) list(names ...string) []map[string]any {
	a.t.Helper()
	list, ok := a.at(names...).([]any)
	if !ok {
		a.t.Fatalf("%s: %v is no list: %.400s", a.what, names, a.raw)
	}
	objects := make([]map[string]any, len(list))
	for i, one := range list {
		objects[i], _ = one.(map[string]any)
	}
	return objects
}

// device connects a real device of the user; it stays until the test ends.
func (u *user) device(id string) *device.Device {
	d, _ := u.visitor(id)
	return d
}

// visitor connects a device that can be sent away.
func (u *user) visitor(id string) (d *device.Device, leave func()) {
	u.r.t.Helper()
	store, err := device.OpenStore(u.r.t.Context(), ":memory:", nil)
	check(u.r.t, err)
	d, err = device.New(device.Options{URL: u.r.server.URL, DeviceID: id, Name: "laptop of " + u.email, Timezone: "Europe/Berlin", Store: store,
		Token: func(context.Context) (string, error) { return u.token, nil }, MinBackoff: 10 * time.Millisecond})
	check(u.r.t, err)
	u.r.t.Cleanup(func() { _ = store.Close() })
	leave = u.r.background(d.Run)
	ctx, cancel := context.WithTimeout(u.r.t.Context(), 10*time.Second)
	defer cancel()
	check(u.r.t, d.Ready(ctx))
	return d, leave
}

// eventually tries until it holds.
func (r *ring) eventually(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(15 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			r.t.Fatalf("it never comes to %s", what)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(n int) header { return header{"Idempotency-Key", fmt.Sprintf("key-%d", n)} }
