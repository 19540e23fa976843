package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

// server is one life of the postmaster.
type server struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it was waited for
	err    error         // how it ended; read after exited
}

// spawn starts the postmaster. The goroutine that starts it also waits for it and keeps its thread until
// then: the kernel sends the parent-death signal when the starting thread ends, not the process.
func (c *Cluster) spawn() (*server, error) {
	logFile, err := c.openLog()
	if err != nil {
		return nil, err
	}
	args := append([]string{"-D", c.data, "-k", c.socket, "-p", strconv.Itoa(c.port), "-c", "listen_addresses=127.0.0.1"}, c.cfg.settings()...)
	cmd := exec.Command(filepath.Join(c.cfg.BinDir, "postgres"), args...)
	cmd.Dir = c.data
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = attributes(c.owner)
	s := &server{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.exited)
		defer logFile.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-s.exited
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return s, nil
}

// openLog appends to the server's own log, and begins anew when it has grown over 16 MiB.
func (c *Cluster) openLog() (*os.File, error) {
	path := c.LogFile()
	if info, err := os.Stat(path); err == nil && info.Size() > 16<<20 {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return f, nil
}

// LogFile is what the server itself writes.
func (c *Cluster) LogFile() string { return filepath.Join(c.cfg.Dir, "postgres.log") }

// launch starts the server and waits until it takes connections. One that ends at once is tried again with
// back-off: another program may have taken the port meanwhile, or the backends of a killed postmaster may
// not have left yet.
func (c *Cluster) launch(ctx context.Context) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		s, err := c.spawn()
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return struct{}{}, backoff.Permanent(errors.Join(errStopped, s.stop()))
		}
		c.server = s
		c.mu.Unlock()
		if err := c.ready(ctx, s); err != nil {
			return struct{}{}, errors.Join(err, s.stop())
		}
		return struct{}{}, nil
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, Multiplier: 2, MaxInterval: 2 * time.Second}),
		backoff.WithMaxElapsedTime(c.cfg.StartTimeout))
	if err != nil {
		return fmt.Errorf("postgres: the server does not start (see %s): %w", c.LogFile(), err)
	}
	return nil
}

var errStopped = errors.New("postgres: stopped")

// ready waits until the server answers a query, or has ended.
func (c *Cluster) ready(ctx context.Context, s *server) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.DSN("postgres"))
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT 1")
			err = errors.Join(err, conn.Close(ctx))
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("postgres: the server ended: %w", cmpErr(s.err, errors.New("without an error")))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Run supervises the server until ctx ends: one that ends by itself is started again. It does not stop
// the server; Stop does. It fails when the server cannot be started again.
func (c *Cluster) Run(ctx context.Context) error {
	for {
		c.mu.Lock()
		s, closed := c.server, c.closed
		c.mu.Unlock()
		if closed {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.exited:
		}
		c.mu.Lock()
		closed = c.closed
		c.mu.Unlock()
		if closed {
			return nil
		}
		c.cfg.Log.Error("postgres ended by itself and is started again", "error", s.err)
		if err := c.launch(ctx); err != nil {
			if ctx.Err() != nil || errors.Is(err, errStopped) {
				return nil
			}
			return err
		}
	}
}

// Stop ends the server (transactions in flight are rolled back) and frees the directory.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	s, again := c.server, c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	var err error
	if s != nil {
		err = s.stop()
	}
	return errors.Join(err, c.lock.Close())
}

// A server is asked for a fast shutdown, which ends with a checkpoint; if that takes long for an immediate one,
// after which the next start recovers; and in the end it is killed, which costs no more.
const (
	fastWithin      = 6 * time.Second
	immediateWithin = 8 * time.Second // it kills backends that do not leave after 5 s
	killWithin      = 5 * time.Second
)

// stop ends the server.
func (s *server) stop() error {
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGINT, fastWithin}, {syscall.SIGQUIT, immediateWithin}, {syscall.SIGKILL, killWithin}} {
		for _, signal := range []syscall.Signal{step.signal, syscall.SIGCONT} { // one that was stopped hears nothing
			if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("postgres: stop: %w", err)
			}
		}
		timer := time.NewTimer(step.within)
		select {
		case <-s.exited:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return errors.New("postgres: the server does not stop")
}
