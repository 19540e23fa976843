package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminDefault is where operators find a process of `cairn dev` or `cairn serve` that was told nothing else. It is a
// convenience: where it is in use the process goes without.
const AdminDefault = "127.0.0.1:8701"

// admin serves operators: metrics, profiles and health, on an address of their own that needs no token, and that nobody
// else may reach.
type admin struct {
	// health is the handler of /healthz and /readyz, once the process serves.
	health atomic.Pointer[http.Handler]
}

// startAdmin listens where it is told to; an empty address means nowhere.
func (a *App) startAdmin(ctx context.Context) error {
	if a.config.AdminListen == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.config.AdminListen)
	if errors.Is(err, syscall.EADDRINUSE) && a.config.AdminListen == AdminDefault {
		a.log.Warn("no metrics and profiles of this process: their address is in use; choose another with CAIRN_ADMIN_LISTEN", "address", AdminDefault)
		return nil
	}
	if err != nil {
		return fmt.Errorf("serve metrics: %w (choose another host:port with CAIRN_ADMIN_LISTEN; empty serves none)", err)
	}
	a.adminURL = "http://" + listener.Addr().String()
	server := &http.Server{Handler: a.adminHandler(), ReadHeaderTimeout: 10 * time.Second}
	a.life.start("metrics", func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		err := server.Close()
		if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
	a.log.Info("metrics and profiles", "url", a.adminURL)
	return nil
}

// AdminURL is where the process serves metrics and profiles; empty: nowhere.
func (a *App) AdminURL() string { return a.adminURL }

func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{
		Registry: a.registry, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
	}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", a.admin.serve)
	mux.HandleFunc("GET /readyz", a.admin.serve)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "/metrics\n/debug/pprof/\n/healthz\n/readyz?verbose\n")
	})
	return mux
}

// serve says of a process that is starting that it lives and is not ready.
func (a *admin) serve(w http.ResponseWriter, r *http.Request) {
	if health := a.health.Load(); health != nil {
		(*health).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/healthz" {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"ready":false,"checks":[{"name":"start","ready":false,"detail":"the process is starting"}]}`+"\n")
}
