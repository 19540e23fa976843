package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

const everyRole = "api,gateway,writer,projector,effects,policies"

// fleet is two processes of all roles, each of one release or the other.
type fleet struct {
	t        *testing.T
	env      []string
	old, new string // binaries
	addrs    [2]string
	running  [2]*process
}

// roll replaces a process by one of a release, at the same address.
func (f *fleet) roll(ctx context.Context, i int, release string) {
	f.t.Helper()
	if p := f.running[i]; p != nil {
		if code := p.end(); code != 0 {
			f.t.Fatalf("a process ended with %d:\n%s", code, p.said())
		}
	}
	f.running[i] = launch(f.t, release, f.env, everyRole, f.addrs[i])
	f.running[i].ready(ctx)
}

func launch(t *testing.T, release string, env []string, roles, addr string) *process {
	t.Helper()
	p := &process{t: t, addr: addr, env: env, output: &bytes.Buffer{}}
	cmd := exec.Command(release, "serve", "--role", roles, "--listen", addr)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &locked{mu: &p.mu, to: p.output}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	done := p.done
	go func() {
		_ = cmd.Wait() // ended, most of the time
		close(done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s on %s:\n%s", release, addr, p.said())
		}
	})
	return p
}

// cairn runs a command of the new release.
func (f *fleet) cairn(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.new, args...)
	cmd.Env = append(os.Environ(), f.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestARollingRestartCanGoBackUntilTheUpgradeIsFinalized takes an installation of two processes from the release of the
// previous commit to this one's and back and forth, one process at a time, while a device works through them. This release
// has one more event type. It is not written before the upgrade is finalized; that is refused while a process runs that
// could not read it; and afterwards the release before is refused in words. Every request is done once.
func TestARollingRestartCanGoBackUntilTheUpgradeIsFinalized(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	brokers := kafkatest.Broker(t, kafkatest.Partitions(4))
	master := bytes.Repeat([]byte{7}, 32)
	f := &fleet{t: t, old: previousRelease(t), new: newRelease(t), addrs: [2]string{freeAddr(t), freeAddr(t)}}
	read, vaults := pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault)
	f.env = outside(brokers, 4, read, vaults, master)
	f.roll(ctx, 0, f.old)
	f.roll(ctx, 1, f.old)
	work := newWork(ctx, t, f.running[0])
	raise := raiser(ctx, t, brokers, read, vaults, master)

	f.roll(ctx, 0, f.new)
	if out, err := f.cairn(ctx, "upgrade", "finalize", "--yes"); err == nil || !strings.Contains(out, "could not read it") {
		t.Errorf("finalized while the release before runs: %v\n%s", err, out)
	}
	f.roll(ctx, 1, f.new)
	if err := raise(); !rejected(err, domain.CodeNotYet) {
		t.Errorf("before the upgrade was finalized the new event's command was answered %v", err)
	}
	f.roll(ctx, 0, f.old)
	f.roll(ctx, 1, f.old)
	f.roll(ctx, 0, f.new)
	f.roll(ctx, 1, f.new)
	out, err := f.cairn(ctx, "upgrade", "status", "--json")
	var status struct {
		New       []string
		CanFinish bool `json:"can_finish"`
	}
	if jsonErr := json.Unmarshal([]byte(out), &status); err != nil || jsonErr != nil || !status.CanFinish || len(status.New) != 2 {
		t.Errorf("status: %v, %v\n%s", err, jsonErr, out)
	}
	if out, err := f.cairn(ctx, "upgrade", "finalize", "--yes"); err != nil {
		t.Fatalf("finalize: %v\n%s", err, out)
	}
	poll(ctx, t, "the new event is written", func() bool {
		err := raise()
		if err != nil && !rejected(err, domain.CodeNotYet) {
			t.Fatalf("after the upgrade was finalized: %v", err)
		}
		return err == nil
	})
	back := launch(t, f.old, f.env, everyRole, freeAddr(t))
	select {
	case <-back.done:
	case <-ctx.Done():
		t.Fatal("the release before did not end")
	}
	if said := back.said(); back.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(said, "the upgrade was finalized") {
		t.Errorf("the release before said, after the upgrade was finalized: %s", said)
	}
	work.check(ctx)
}

// work is a device that works all the while.
type work struct {
	t    *testing.T
	u    *user
	d    *device.Device
	stop context.CancelFunc
	done chan int
}

func newWork(ctx context.Context, t *testing.T, p *process) *work {
	t.Helper()
	w := &work{t: t, u: newUser(ctx, t, &process{t: t, addr: p.addr}), done: make(chan int, 1)}
	w.d = w.u.device(nil)
	going, stop := context.WithCancel(ctx)
	w.stop = stop
	go func() {
		n := 0
		for ; going.Err() == nil; n++ {
			result, err := w.d.Send(device.Request{Message: fmt.Sprintf("Create a task called Number %d, low priority", n)}).Wait(ctx)
			if err != nil || result.Err != nil {
				t.Errorf("request %d ended with %v, %v", n, err, result.Err)
				break
			}
		}
		w.done <- n
	}()
	return w
}

// check ends the work and looks whether each request was done once.
func (w *work) check(ctx context.Context) {
	w.t.Helper()
	w.stop()
	n := <-w.done
	for i := range n {
		if tasks := titled(ctx, w.t, w.d, fmt.Sprintf("Number %d", i)); tasks != 1 {
			w.t.Errorf("request %d led to %d tasks", i, tasks)
		}
	}
	if n < 3 {
		w.t.Errorf("only %d requests were made meanwhile", n)
	}
	w.t.Logf("%d requests, each done once", n)
}

func rejected(err error, code string) bool {
	var r *domain.Rejection
	return errors.As(err, &r) && r.Code == code
}

// raiser sends the command that only the new release knows; each time another one.
func raiser(ctx context.Context, t *testing.T, config kafka.Config, read, vaults string, master []byte) func() error {
	t.Helper()
	schema, err := codec.New(domain.Aggregate{Kind: "pennant", Commands: []domain.Kind{domain.Named[raisePennant]("pennant.raise")}})
	if err != nil {
		t.Fatal(err)
	}
	pools := make([]*pgxpool.Pool, 2)
	for i, dsn := range []string{read, vaults} {
		if pools[i], err = pgxpool.New(ctx, dsn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pools[i].Close)
	}
	keys, states := vault.Open(pools[1], master, time.Now), writerstates.New(pools[0])
	ask, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = ask.Run(running) // stopped
	}()
	t.Cleanup(func() { stop(); <-ended })
	return func() error {
		scope := domain.User("0badcafe")
		_, err := ask.Ask(ctx, streams.Command{
			Scope: scope, ID: streams.CommandID(scope, uuid.NewString()), Actor: domain.Actor{Kind: domain.ActorSystem}, Body: raisePennant{Pennant: "one"},
		})
		return err
	}
}

// raisePennant is the new release's command.
type raisePennant struct {
	Pennant string `json:"pennant"`
}

// Target implements domain.Command.
func (r raisePennant) Target() domain.Stream { return domain.NewStream("pennant", r.Pennant) }
