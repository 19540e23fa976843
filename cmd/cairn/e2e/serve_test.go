package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// TestRolesInProcessesOfTheirOwn turns the ring with each half in a process of its own, on brokers and databases that
// neither of them started: one holds the sockets and answers HTTP, the other decides, projects and acts. When
// the second is killed in the middle of a run and another takes its place, the run completes.
func TestRolesInProcessesOfTheirOwn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	brokers := kafkatest.Broker(t)
	env := outside(brokers, 4, pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault), bytes.Repeat([]byte{7}, 32))
	front := serve(t, env, "api,gateway")
	back := serve(t, env, "writer,projector,effects")
	front.ready(ctx)
	back.ready(ctx)

	u := newUser(ctx, t, &process{t: t, addr: front.addr})
	var once sync.Once
	d := u.device(func(o *device.Options) {
		o.OnCall = func(device.Call) { once.Do(back.kill) }
	})
	stream := d.Send(device.Request{Message: "Create a task called Buy milk"})
	select {
	case <-back.done:
	case <-ctx.Done():
		t.Fatal("the device was never called")
	}
	again := serve(t, env, "writer,projector,effects")
	again.ready(ctx)
	result, err := stream.Wait(ctx)
	if err != nil || result.Err != nil || !strings.Contains(result.Text, "Buy milk") {
		t.Fatalf("the request ended with %v, %v, %q", err, result.Err, result.Text)
	}
	if n := titled(ctx, t, d, "Buy milk"); n != 1 {
		t.Errorf("the device has %d tasks", n)
	}
	if resp, err := http.Get(back.url() + "/api/v1/threads"); err == nil {
		resp.Body.Close()
		t.Errorf("a process without the role api answered %s", resp.Status)
	}
}

// outside is the environment of processes on brokers and databases that none of them starts.
func outside(brokers kafka.Config, partitions int, read, vaults string, master []byte) []string {
	return []string{
		"CAIRN_BROKERS=" + strings.Join(brokers.Seeds, ","), "CAIRN_LIVE_BROKERS=" + strings.Join(brokers.LiveSeeds, ","),
		"CAIRN_TOPIC_PREFIX=" + cmp.Or(brokers.Topics.Prefix, "cairn"),
		"CAIRN_REPLICATION=" + strconv.Itoa(max(1, int(brokers.Topics.Replication))), "CAIRN_PARTITIONS=" + strconv.Itoa(partitions),
		"CAIRN_LOG_LEVEL=warn", "CAIRN_DATABASE_URL=" + read, "CAIRN_VAULT_URL=" + vaults,
		"CAIRN_MASTER_KEY=" + hex.EncodeToString(master),
	}
}

// serve starts `cairn serve` with roles.
func serve(t *testing.T, env []string, roles string) *process {
	t.Helper()
	p := &process{t: t, addr: freeAddr(t), env: env, output: &bytes.Buffer{}}
	cmd := exec.Command(binary, "serve", "--role", roles, "--listen", p.addr)
	cmd.Env = append(os.Environ(), env...)
	out := &locked{mu: &p.mu, to: p.output}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or asked to end
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of serve --role %s:\n%s", roles, p.said())
		}
	})
	return p
}
