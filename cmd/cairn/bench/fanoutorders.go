package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// order is what a measured server is told, a JSON line on its standard input; deploy/peers/fanout obeys the same.
type order struct {
	Do     string       `json:"do"`
	User   string       `json:"user,omitempty"` // token: whose
	Scope  domain.Scope `json:"scope,omitempty"`
	Stream string       `json:"stream,omitempty"`
	From   int64        `json:"from,omitempty"`  // publish, flood: the first number
	Count  int64        `json:"count,omitempty"` // publish: how many
	Rate   float64      `json:"rate,omitempty"`  // publish: how many a second; 0: as fast as they go
	UpTo   int64        `json:"up_to,omitempty"` // flood, upto: numbers below it may be published
	// Payload is what the peer publishes: what stands before and after the number in an event as Cairn sends it.
	Payload [2]string `json:"payload,omitzero"`
	Path    string    `json:"path,omitempty"`    // profile: the file
	Seconds float64   `json:"seconds,omitempty"` // profile: how long
}

// The orders. Upto alone is not answered.
const (
	orderToken   = "token"   // answers what lets User in; the peer's alone
	orderPublish = "publish" // publishes From, From+1, … at Rate, and answers when each was committed
	orderFlood   = "flood"   // publishes as fast as it goes, up to what upto allows
	orderUpTo    = "upto"
	orderHalt    = "halt"    // ends the flood, and answers the number after its last
	orderMemory  = "memory"  // collects garbage, and answers what is left
	orderUsed    = "used"    // answers the memory as it is
	orderCPU     = "cpu"     // answers the processor time that was used
	orderProfile = "profile" // begins a profile; Cairn's alone
)

// answered is an answer, a JSON line.
type answered struct {
	Error      string  `json:"error,omitempty"`
	URL        string  `json:"url,omitempty"` // the first line: where it serves
	Token      string  `json:"token,omitempty"`
	Committed  []int64 `json:"committed,omitempty"` // Unix nanoseconds, by number
	Asked      []int64 `json:"asked,omitempty"`     // the same, before the command was sent
	Last       int64   `json:"last,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"`
	Goroutines int     `json:"goroutines,omitempty"`
	CPU        int64   `json:"cpu,omitempty"` // nanoseconds
}

// obedient is a measured server in a process of its own.
type obedient struct {
	name   string
	url    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte
	output bytes.Buffer // what it says of what goes wrong

	mu sync.Mutex // one line at a time
}

// startObedient starts a program that obeys, and returns when it serves.
func startObedient(ctx context.Context, name string, env []string, program string, args ...string) (*obedient, error) {
	o := &obedient{name: name, cmd: exec.Command(program, args...), lines: make(chan []byte)} //nolint:gosec // this program, or the peer
	o.cmd.Env = append(os.Environ(), env...)
	o.cmd.Stderr = &o.output
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a terminal sends to us is not for it
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", name, err)
	}
	go func() {
		defer close(o.lines)
		lines := bufio.NewReaderSize(out, 1<<16)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			o.lines <- line
		}
	}()
	ready, err := o.answer(ctx)
	if err != nil {
		return nil, errors.Join(err, o.end())
	}
	o.url = ready.URL
	return o, nil
}

// tell gives an order.
func (o *obedient) tell(do order) error {
	text, err := json.Marshal(do)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("bench: tell %s: %w: %s", o.name, err, o.output.String())
	}
	return nil
}

// ask gives an order and waits for the answer.
func (o *obedient) ask(ctx context.Context, do order) (answered, error) {
	if err := o.tell(do); err != nil {
		return answered{}, err
	}
	return o.answer(ctx)
}

func (o *obedient) answer(ctx context.Context) (a answered, err error) {
	select {
	case line, ok := <-o.lines:
		if !ok {
			_ = o.cmd.Wait()
			return a, fmt.Errorf("bench: %s ended: %s", o.name, o.output.String())
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return a, fmt.Errorf("bench: %s answered %q: %w", o.name, line, err)
		}
		if a.Error != "" {
			return a, fmt.Errorf("bench: %s: %s", o.name, a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return a, fmt.Errorf("bench: waiting for %s: %w", o.name, ctx.Err())
	}
}

// end closes its input, at which it ends, and kills it when it does not.
func (o *obedient) end() error {
	o.in.Close() //nolint:gosec // the other end may be gone
	late := time.AfterFunc(30*time.Second, func() { _ = o.cmd.Process.Kill() })
	defer late.Stop()
	for range o.lines { // what it still says
	}
	if err := o.cmd.Wait(); err != nil && o.cmd.ProcessState.ExitCode() != 0 {
		return fmt.Errorf("bench: %s: %w: %s", o.name, err, o.output.String())
	}
	return nil
}
