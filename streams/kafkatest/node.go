package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// node is one broker, which is a controller, too.
type node struct {
	number, port, controller int
	dir                      string
	log                      *slog.Logger

	mu      sync.Mutex
	process *os.Process   // nil: none was started
	ended   chan struct{} // closed when the process is gone
}

func (n *node) address() string         { return fmt.Sprintf("127.0.0.1:%d", n.port) }
func (n *node) file(name string) string { return filepath.Join(n.dir, name) }

// start starts the process. What it prints goes to broker.log.
func (n *node) start(cmd *exec.Cmd) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		return fmt.Errorf("kafkatest: broker %d runs already", n.number)
	}
	out, err := os.OpenFile(n.file("broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("kafkatest: %w", err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// The kernel kills a child when the *thread* that started it ends: this one lives as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("kafkatest: start broker %d: %w", n.number, err)
			return
		}
		started <- nil
		err := cmd.Wait()
		n.log.Info("kafka broker ended", "broker", n.number, "how", err)
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	n.process, n.ended = cmd.Process, ended
	return nil
}

// running reports whether the process is there. n.mu is held.
func (n *node) running() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// signal sends to the process if it is there, and answers what is closed when it is gone.
func (n *node) signal(signals ...syscall.Signal) (ended <-chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running() {
		return nil, nil
	}
	for _, s := range signals {
		if err := n.process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return nil, fmt.Errorf("kafkatest: broker %d: %w", n.number, err)
		}
	}
	return n.ended, nil
}

func (n *node) kill() error {
	ended, err := n.signal(syscall.SIGKILL)
	if ended != nil {
		<-ended
	}
	return err
}

func (n *node) stop(within time.Duration) error {
	ended, err := n.signal(syscall.SIGCONT, syscall.SIGTERM)
	if ended == nil {
		return err
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-ended:
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("kafkatest: broker %d did not end within %s", n.number, within), n.kill())
	}
}

func (n *node) pause() error  { return n.mustSignal(syscall.SIGSTOP) }
func (n *node) resume() error { return n.mustSignal(syscall.SIGCONT) }

func (n *node) mustSignal(s syscall.Signal) error {
	ended, err := n.signal(s)
	if err == nil && ended == nil {
		err = fmt.Errorf("kafkatest: broker %d does not run", n.number)
	}
	return err
}

// ready waits until the broker is a member that serves: it answers by itself, with itself among the brokers that
// the controllers let in.
func (n *node) ready(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(n.address()), kgo.ClientID("kafkatest"), kgo.DialTimeout(2*time.Second))
	if err != nil {
		return fmt.Errorf("kafkatest: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	n.mu.Lock()
	ended := n.ended
	n.mu.Unlock()
	var last error
	for {
		if last = n.serves(ctx, client); last == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("kafkatest: broker %d ended while it started:\n%s", n.number, n.tail())
		case <-ctx.Done():
			return fmt.Errorf("kafkatest: broker %d does not serve: %w (%w)\n%s", n.number, ctx.Err(), last, n.tail())
		case <-tick.C:
		}
	}
}

func (n *node) serves(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	meta, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	for _, b := range meta.Brokers {
		if int(b.NodeID) == n.number {
			return nil
		}
	}
	return fmt.Errorf("it sees %d brokers, but not itself", len(meta.Brokers))
}

// tail is the end of what the broker printed.
func (n *node) tail() []byte {
	text, err := os.ReadFile(n.file("broker.log"))
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-30):], []byte("\n"))
}
