package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cairnhq/cairn/handlers/rest"
)

// drainWithin is how long requests in hand may take when the process stops.
const drainWithin = 5 * time.Second

// serve answers HTTP: what the roles offer, and health for all of them.
func (a *App) serve(listener net.Listener) error {
	mux := http.NewServeMux()
	stopping := make(chan struct{})
	handler, err := a.handler(stopping)
	if err != nil {
		return err
	}
	mux.Handle("/", a.traced(handler))
	a.admin.health.Store(&handler)
	if a.config.has(RoleGateway) {
		mux.Handle("GET /api/v1/ws/device", a.gateway.Handler())
	}
	a.url = "http://" + listener.Addr().String()
	requests, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	server.RegisterOnShutdown(func() { close(stopping) })
	a.life.start("http", func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		select {
		case err := <-failed:
			end()
			return err
		case <-ctx.Done():
		}
		// Streams that are followed never end by themselves: after a while they are told to.
		patience := time.AfterFunc(drainWithin/2, end)
		defer patience.Stop()
		drain, cancel := context.WithTimeout(context.Background(), drainWithin)
		defer cancel()
		if err := server.Shutdown(drain); err != nil {
			server.Close() //nolint:errcheck,gosec // it is closed either way
		}
		end()
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if !a.config.Embedded() {
		return nil
	}
	return a.announce()
}

// announce tells other commands on this machine how to reach what runs here.
func (a *App) announce() error {
	return runtime{
		PID: pid(), URL: a.url, AdminURL: a.adminURL, Brokers: a.infra.kafka.Seeds, LiveBrokers: a.infra.kafka.LiveSeeds,
		DatabaseURL: a.infra.readDSN, VaultURL: a.infra.vaultDSN,
		Era: a.infra.kafka.Topics.CurrentEra(), Prefix: a.infra.kafka.Topics.Prefix, Partitions: a.infra.kafka.Topics.N(),
	}.write(a.config.Data)
}

// handler is the REST interface, or health alone where the process has not the role. Its streams end when stopping is
// closed.
func (a *App) handler(stopping <-chan struct{}) (http.Handler, error) {
	all, err := rest.New(rest.Config{
		Accounts: a.accounts, Asker: a.asker, Events: a.events, Threads: a.threads, Runs: a.runs, Devices: a.devices, Requests: a.requests,
		Effects: a.effects, Work: a.work, Waiter: a.waiter, Schema: a.schema, Keys: a.vault, Gateway: a.gateway, Fanout: a.fanout, Stopping: stopping,
		Embedder: a.embedder, Readiness: a.readiness, CatchUp: a.config.CatchupMax, TrustedProxies: a.config.TrustedProxies, Origins: a.config.CORSOrigins,
		Limits: rest.Limits{Commands: a.config.CommandRate, CommandBurst: a.config.CommandBurst}, Now: a.config.Now, Log: a.log, Metrics: a.registry,
	})
	if err != nil || a.config.has(RoleAPI) {
		return all, err
	}
	health := http.NewServeMux()
	health.Handle("GET /healthz", all)
	health.Handle("GET /readyz", all)
	return health, nil
}
