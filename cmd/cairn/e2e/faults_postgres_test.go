package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/api"
)

// postmaster is the process id of a data directory's cluster.
func postmaster(t *testing.T, data string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(postgresHome(data), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil || pid < 2 {
		t.Fatalf("the pid file says %q", text)
	}
	return pid
}

// signalAll signals the postmaster and its backends.
func signalAll(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if errors.Is(err, os.ErrNotExist) { // not on Linux
		children, err = exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range append([]string{strconv.Itoa(pid)}, strings.Fields(string(children))...) {
		child, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// ready is the status of /readyz.
func (f *faults) ready(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second) // it never hangs
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.p.url()+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// back waits until the process says that it is ready again, all by itself.
func (f *faults) back(t *testing.T) {
	t.Helper()
	poll(f.ctx, t, "cairn is ready again", func() bool { return f.ready(t) == http.StatusOK })
}

func (f *faults) postgresKilled(t *testing.T) {
	f.during(t, "killed", 10, func() { killPostgres(f.p.data) })
	f.back(t)
	f.say(t, "after the kill")
}

// postgresStopped has Postgres not answer, for as long as a read waits: reads fail clearly and commands wait, or are
// told to come again.
func (f *faults) postgresStopped(t *testing.T) {
	f.during(t, "stopped", 5, func() {
		pid := postmaster(t, f.p.data)
		signalAll(t, pid, syscall.SIGSTOP)
		defer signalAll(t, pid, syscall.SIGCONT)
		began := time.Now()
		// What was found a moment ago may be told once more.
		poll(f.ctx, t, "without Postgres /readyz says so", func() bool { return f.ready(t) == http.StatusServiceUnavailable })
		var told *api.Problem
		err := f.u.Get(f.ctx, "/api/v1/threads", nil)
		if took := time.Since(began); !errors.As(err, &told) || told.Code != "unavailable" || took > 20*time.Second {
			t.Errorf("without Postgres a read was answered %v after %v", err, took)
		}
	})
	f.back(t)
}

// orphan leaves a Postgres behind that heard nothing of its process's end.
func (f *faults) orphan(t *testing.T) {
	pid := postmaster(t, f.p.data)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.p.kill()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the server did not outlive its process: %v", err)
	}
	f.p.start(f.ctx)
	if now := postmaster(t, f.p.data); now == pid || running(pid) {
		t.Errorf("the server that was left behind still runs (%d, now %d)", pid, now)
	}
	f.say(t, "after the orphan")
}

// running reports whether a process lives: one that ended and was not waited for does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
