package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is one process of the installation, with one role. Its address stays the same over restarts. One that ends by
// itself is started again, as a supervisor would, and counted.
type Process struct {
	Role  string
	Index int
	Addr  string

	binary  string
	clocked []string // the program, with its first arguments, that stands for binary where the clock is to be moved
	env     []string
	log     string
	clock   string // the file in which that program finds how far its clock is ahead

	mu      sync.Mutex
	cmd     *exec.Cmd
	exited  chan struct{}
	wanted  bool // it is meant to run
	program []string
	began   int64 // where in its log this start begins
	ended   []End
	running sync.WaitGroup
}

// String names it.
func (p *Process) String() string { return fmt.Sprintf("%s %d", p.Role, p.Index) }

// URL is where it serves HTTP.
func (p *Process) URL() string { return "http://" + p.Addr }

// Start begins the process. It does not wait until it is ready.
func (p *Process) Start() error { return p.start([]string{p.binary}) }

// StartClocked begins the process with a clock that Shift moves, and that is right at first.
func (p *Process) StartClocked() error {
	if err := p.Shift(0); err != nil {
		return err
	}
	return p.start(p.clocked)
}

func (p *Process) start(program []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.program = true, program
	return p.spawn()
}

// Shift has the clock of a process that was begun with StartClocked run ahead by so much, within a tenth of a second.
func (p *Process) Shift(by time.Duration) error {
	// Renamed into place: who reads it finds the old text or the new one.
	if err := os.WriteFile(p.clock+".new", []byte(by.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(p.clock+".new", p.clock)
}

// spawn starts it, with mu held. The goroutine that starts it keeps its thread: the kernel sends the parent-death signal
// when the thread that started a process ends.
func (p *Process) spawn() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p, err)
	}
	began, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p, err)
	}
	args := append(append([]string(nil), p.program[1:]...), "serve", "--role", p.Role, "--listen", p.Addr)
	cmd := exec.Command(p.program[0], args...)
	cmd.Env = append(append(os.Environ(), p.env...), ClockVariable+"="+p.clock)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	exited := make(chan struct{})
	started := make(chan error, 1)
	p.running.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
		}
		close(exited)
		if err == nil {
			p.revive(cmd)
		}
	})
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p, err)
	}
	p.cmd, p.exited, p.began = cmd, exited, began
	return nil
}

// reviveAfter is how long a process that ended by itself is left, as systemd's RestartSec.
const reviveAfter = time.Second

// revive starts a process again that ended by itself.
func (p *Process) revive(cmd *exec.Cmd) {
	p.mu.Lock()
	if !p.wanted || p.cmd != cmd {
		p.mu.Unlock()
		return
	}
	p.ended = append(p.ended, p.how(ByItself, cmd))
	p.mu.Unlock()
	timer := time.NewTimer(reviveAfter)
	defer timer.Stop()
	<-timer.C
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted && p.cmd == cmd {
		if err := p.spawn(); err != nil {
			p.ended = append(p.ended, End{Process: p.String(), Sort: ByItself, Code: -1, Said: err.Error()})
		}
	}
}

// Ended says how the process ended each time that it was not told to, or not as it was told to.
func (p *Process) Ended() []End {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]End(nil), p.ended...)
}

// Kill ends the process at once, and returns when it is gone.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the process to end, and returns when it is gone. It is killed if it takes longer than a minute.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(signal syscall.Signal) {
	p.mu.Lock()
	gone := !p.wanted // it was told before
	p.wanted = false
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT) // one that is stopped hears nothing
	_ = cmd.Process.Signal(signal)          // one that is gone needs none
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	<-exited
	if signal == syscall.SIGTERM && !gone && !cmd.ProcessState.Success() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = append(p.ended, p.how(Untidy, cmd))
	}
}

// Pause stops the process where it is (SIGSTOP): it keeps its connections and hears nothing.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s was never started", p)
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal %s: %w", p, err)
	}
	return nil
}

// wait returns when all that was started has ended.
func (p *Process) wait() { p.running.Wait() }

// Ready waits until the process says that it can work.
func (p *Process) Ready(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var said string
	for {
		request, cancel := context.WithTimeout(ctx, 5*time.Second)
		r, err := http.NewRequestWithContext(request, http.MethodGet, p.URL()+"/readyz", nil)
		if err != nil {
			cancel()
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		cancel()
		if err == nil {
			answer.Body.Close() //nolint:errcheck,gosec // it was not read
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			said = answer.Status
		} else {
			said = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%s; see %s): %w", p, said, p.log, ctx.Err())
		case <-tick.C:
		}
	}
}

// ClockVariable names the file that says how far a process's clock is ahead.
const ClockVariable = "CAIRN_CHAOS_CLOCK"

// Program is what processes run.
type Program struct {
	Dir     string // of their logs
	Binary  string
	Clocked []string
	Env     []string
}

// NewProcess prepares a process, on an address of its own.
func NewProcess(program Program, role string, index int) (*Process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	file := filepath.Join(program.Dir, fmt.Sprintf("%s-%d", role, index))
	return &Process{
		Role: role, Index: index, Addr: addr, binary: program.Binary, clocked: program.Clocked, env: program.Env,
		log: file + ".log", clock: file + ".clock",
	}, nil
}
