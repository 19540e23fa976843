package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// writer is a `cairn serve --role writer` of its own, which can be killed.
type writer struct {
	cmd    *exec.Cmd
	url    string
	output bytes.Buffer
	ended  chan struct{}
}

// startWriter starts one with the settings in env.
func startWriter(binary string, env []string) (*writer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	addr := l.Addr().String()
	l.Close()
	w := &writer{cmd: exec.Command(binary, "serve", "--role", "writer", "--listen", addr), url: "http://" + addr, ended: make(chan struct{})} //nolint:gosec // this program
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stdout, w.cmd.Stderr = &w.output, &w.output
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start a writer: %w", err)
	}
	go func() {
		defer close(w.ended)
		_ = w.cmd.Wait() // it is killed, or told to end
	}()
	return w, nil
}

// end sends a signal and waits until the process is gone. One that has ended hears nothing.
func (w *writer) end(signal syscall.Signal) {
	_ = w.cmd.Process.Signal(signal)
	<-w.ended
}

// leads are the partitions that it leads.
func (w *writer) leads(ctx context.Context) (map[int32]bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/readyz?verbose", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var ready struct {
		Checks []struct{ Name, Detail string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&ready); err != nil {
		return nil, err
	}
	leads := map[int32]bool{}
	for _, c := range ready.Checks {
		if number, ok := strings.CutPrefix(c.Name, "writer/"); ok && c.Detail == "leading" {
			p, err := strconv.ParseInt(number, 10, 32)
			if err != nil {
				return nil, err
			}
			leads[int32(p)] = true
		}
	}
	return leads, nil
}

// allLed waits until the writers lead all partitions together, each at least one.
func allLed(ctx context.Context, partitions int32, writers ...*writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		led, idle := 0, false
		for _, w := range writers {
			leads, err := w.leads(ctx)
			idle = idle || err != nil || len(leads) == 0
			led += len(leads)
		}
		if !idle && led == int(partitions) {
			return nil
		}
		for _, w := range writers {
			select {
			case <-w.ended:
				return fmt.Errorf("bench: a writer ended: %s", w.output.String())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench: %d writers lead %d of %d partitions", len(writers), led, partitions)
		case <-tick.C:
		}
	}
}
