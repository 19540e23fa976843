package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endOrphan ends a server that outlived the process that started it, and clears a stale pid file. The
// caller holds the directory's lock, so whatever runs on these files is nobody's.
//
// A pid may have been given to another process since: a process counts as ours only if it works in the data
// directory. Backends that outlive their postmaster notice its death and leave by themselves; until then a
// new server refuses to start, and start tries again.
func (c *Cluster) endOrphan(ctx context.Context) error {
	pid, ok := c.postmasterPID()
	if !ok {
		return nil
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
		// Postgres clears the file itself, and looks in it for the shared memory of backends that have not
		// noticed yet that their postmaster is gone: without the file two servers would write the same data.
		return nil
	}
	if !worksIn(pid, c.data) {
		c.cfg.Log.Info("postgres left a stale pid file, and its pid is another process's now", "pid", pid)
		return os.Remove(filepath.Join(c.data, "postmaster.pid"))
	}
	c.cfg.Log.Info("ending a postgres that outlived its process", "pid", pid)
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastWithin}, {syscall.SIGQUIT, immediateWithin}, {syscall.SIGKILL, killWithin}} {
		for _, signal := range []syscall.Signal{step.signal, syscall.SIGCONT} { // one that was stopped hears nothing
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("postgres: end the server that outlived its process: %w", err)
			}
		}
		if gone(ctx, pid, step.wait) {
			return nil
		}
	}
	return errors.New("postgres: a server that outlived its process does not end")
}

// gone waits until a process that is no child of ours has ended.
func gone(ctx context.Context, pid int, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// zombie reports a process that has ended and was not waited for (its parent died without a reaper).
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ")
	return ok && strings.HasPrefix(rest, "Z")
}

func (c *Cluster) postmasterPID() (int, bool) {
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	return pid, err == nil && pid > 1
}

// worksIn reports whether a process lives and its working directory is dir. Without /proc only life counts.
func worksIn(pid int, dir string) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
		return false
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		return true
	}
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		return false
	}
	straight, err := filepath.EvalSymlinks(dir)
	return err == nil && (cwd == straight || cwd == dir)
}
