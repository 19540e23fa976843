package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

// served is a `cairn dev` in a process of its own.
type served struct {
	cmd    *exec.Cmd
	url    string
	output bytes.Buffer
	ended  chan struct{}
}

// serve starts a Cairn with everything on a data directory, and returns when it is ready.
func serve(ctx context.Context, binary string, config app.Config, env ...string) (*served, error) {
	s := &served{cmd: exec.Command(binary, "dev", "--data", config.Data, "--listen", config.Listen), ended: make(chan struct{})} //nolint:gosec // this program
	s.cmd.Env = append(append(os.Environ(), "CAIRN_LOG_LEVEL=warn", "CAIRN_COMMAND_RATE=1000000", "CAIRN_COMMAND_BURST=1000000"), env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a terminal sends to us is not for it
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start Cairn: %w", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // it is told to end
	}()
	return s, s.ready(ctx, config)
}

func (s *served) ready(ctx context.Context, config app.Config) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if attached, url, err := config.Attach(); err == nil && attached.DatabaseURL != "" && app.Answers(ctx, url) {
			s.url = url
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("bench: Cairn ended while it started: %s", s.output.String())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.stop())
		case <-tick.C:
		}
	}
}

// stop ends it in order.
func (s *served) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("bench: Cairn ended with %d: %s", code, s.output.String())
	}
	return nil
}

// rebuilding is a `cairn projections rebuild` in a process of its own, which can be killed.
type rebuilding struct {
	cmd    *exec.Cmd
	output bytes.Buffer // what is no JSON
	ended  chan struct{}

	mu    sync.Mutex
	share float64 // of filling
	lines []rebuiltLine
}

// rebuiltLine is what the command prints of a read model that is done.
type rebuiltLine struct {
	Projection string  `json:"projection"`
	Generation int     `json:"generation"`
	TakenUp    bool    `json:"taken_up"`
	Clean      bool    `json:"clean"`
	Swapped    bool    `json:"swapped"`
	Seconds    float64 `json:"seconds"`
}

// command is the program on the data directory of what serves.
func command(binary string, config app.Config, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append(args, "--data", config.Data, "--json")...) //nolint:gosec // this program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func startRebuild(binary string, config app.Config) (*rebuilding, error) {
	r := &rebuilding{cmd: command(binary, config, "projections", "rebuild", "--all"), ended: make(chan struct{})}
	r.cmd.Stderr = &r.output
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("bench: start a rebuild: %w", err)
	}
	go func() {
		defer close(r.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.hear(lines.Bytes())
		}
		_ = r.cmd.Wait() // its code is looked at by who waits for it
	}()
	return r, nil
}

func (r *rebuilding) hear(line []byte) {
	var said struct {
		Phase string  `json:"phase"`
		Done  float64 `json:"done"`
		Total float64 `json:"total"`
		rebuiltLine
	}
	if json.Unmarshal(line, &said) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case said.Phase == "filling" && said.Total > 0:
		r.share = said.Done / said.Total
	case said.Phase == "":
		r.lines = append(r.lines, said.rebuiltLine)
	}
}

// killAt kills it when it has filled that share.
func (r *rebuilding) killAt(ctx context.Context, share float64) (reached float64, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		reached = r.share
		r.mu.Unlock()
		if reached >= share {
			_ = r.cmd.Process.Kill()
			<-r.ended
			return reached, nil
		}
		select {
		case <-r.ended:
			return reached, fmt.Errorf("bench: a rebuild ended before it could be killed: %s", r.output.String())
		case <-ctx.Done():
			_ = r.cmd.Process.Kill()
			<-r.ended
			return reached, ctx.Err()
		case <-tick.C:
		}
	}
}

// wait waits for its end, and answers what it did.
func (r *rebuilding) wait(ctx context.Context) ([]rebuiltLine, error) {
	select {
	case <-r.ended:
	case <-ctx.Done():
		_ = r.cmd.Process.Kill()
		<-r.ended
		return nil, ctx.Err()
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		return r.lines, fmt.Errorf("bench: a rebuild ended with %d: %s", code, r.output.String())
	}
	return r.lines, nil
}
