package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams/kafka"
)

// drainWithin is how long requests in hand may take when the process stops.
const drainWithin = 5 * time.Second

// serve answers HTTP: what the roles offer, and health for all of them.
func (a *App) serve(listener net.Listener) error {
	mux := http.NewServeMux()
	handler, err := a.handler()
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

// handler is the REST interface, or health alone where the process has not the role.
func (a *App) handler() (http.Handler, error) {
	all, err := rest.New(rest.Config{
		Accounts: a.accounts, Asker: a.asker, Events: a.events, Threads: a.threads, Runs: a.runs, Devices: a.devices,
		Effects: a.effects, Work: a.work, Waiter: a.waiter, Schema: a.schema, Keys: a.vault, Gateway: a.gateway,
		Embedder: a.embedder, Readiness: a.readiness,
		Limits: rest.Limits{Commands: a.config.CommandRate, CommandBurst: a.config.CommandBurst}, Now: a.config.Now, Log: a.log,
	})
	if err != nil || a.config.has(RoleAPI) {
		return all, err
	}
	health := http.NewServeMux()
	health.Handle("GET /healthz", all)
	health.Handle("GET /readyz", all)
	return health, nil
}

// readinessWithin is how long the look at what the roles need may take: what does not answer is not ready.
const readinessWithin = 2 * time.Second

// readiness says whether each thing that the roles need is there.
func (a *App) readiness(ctx context.Context) []rest.Check {
	ctx, cancel := context.WithTimeout(ctx, readinessWithin)
	defer cancel()
	checks := []rest.Check{a.pinged(ctx, "database"), a.pinged(ctx, "vault")}
	_, err := a.tailer.End(ctx, 0)
	checks = append(checks, rest.Check{Name: "brokers", Err: err})
	if a.writer != nil {
		checks = append(checks, a.leading()...)
	}
	if a.publisher != nil {
		checks = append(checks, a.publishing()...)
	}
	states, err := projections.List(ctx, a.infra.read)
	if err != nil {
		return append(checks, rest.Check{Name: "projections", Err: err})
	}
	for _, s := range states {
		if !s.Live {
			continue
		}
		check := rest.Check{Name: fmt.Sprintf("projection %s/%d", s.Projection, s.Partition), Detail: fmt.Sprintf("%d behind", s.Lag())}
		if s.Stopped != nil {
			check.Err = s.Stopped
		}
		checks = append(checks, check)
	}
	return checks
}

func (a *App) pinged(ctx context.Context, name string) rest.Check {
	pool := a.infra.read
	if name == "vault" {
		pool = a.infra.vault
	}
	return rest.Check{Name: name, Err: pool.Ping(ctx)}
}

func (a *App) leading() []rest.Check {
	var checks []rest.Check
	for _, s := range a.writer.Stats() {
		check := rest.Check{Name: fmt.Sprintf("writer/%d", s.Partition), Detail: string(s.Phase)}
		if s.Phase == kafka.Leading && s.Waiting != "" {
			check.Err = errors.New("waits for " + s.Waiting)
		}
		checks = append(checks, check)
	}
	return checks
}
