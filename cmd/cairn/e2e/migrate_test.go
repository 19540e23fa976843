package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// mover is the e-mail of the account that moves.
const mover = "mover@example.com"

// TestACairnMovesToOtherBrokersAndToMorePartitions takes an installation from the embedded broker and databases to other
// brokers and databases, with more partitions, while nothing runs; and then to more partitions on the same brokers, while
// the old processes still do. Each time its user goes on: the password lets in, positions of before are understood, the
// timeline is the same, and what is asked next is answered. An old process is refused in words.
func TestACairnMovesToOtherBrokersAndToMorePartitions(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	brokers := kafkatest.Broker(t)
	p := newProcess(t, "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	client := api.New(p.url())
	account, err := client.Register(ctx, mover, "a long enough password")
	if err != nil {
		t.Fatal(err)
	}
	u := &user{Client: client, t: t, p: p, scope: account.Scope}
	first, err := u.device(nil).Send(device.Request{Message: "Create a task called Buy milk"}).Wait(ctx)
	if err != nil || first.Err != nil {
		t.Fatal(err, first.Err)
	}
	before := u.timeline(ctx, first.SessionID, first.Position)
	if code := p.end(); code != 0 {
		t.Fatalf("cairn dev ended with %d", code)
	}

	read, vault := pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault)
	prefix := cmp.Or(brokers.Topics.Prefix, "cairn")
	env := migrated(ctx, t, p.env, "log", "migrate", "--yes", "--data", p.data, "--to-brokers", strings.Join(brokers.Seeds, ","),
		"--to-live-brokers", strings.Join(brokers.LiveSeeds, ","), "--to-partitions", "4", "--to-prefix", prefix,
		"--to-replication", strconv.Itoa(max(1, int(brokers.Topics.Replication))), "--to-database-url", read, "--to-vault-url", vault)
	env = append(env, "CAIRN_MASTER_KEY_FILE="+p.data+"/master.key", "CAIRN_LOG_LEVEL=warn")
	onKafka := goesOn(ctx, t, env, first, before)

	more := migrated(ctx, t, env, "log", "migrate", "--yes", "--to-partitions", "7")
	env = append(env, more...)
	refused := exec.CommandContext(ctx, binary, "serve", "--role", "api", "--listen", freeAddr(t))
	refused.Env = append(os.Environ(), env[:len(env)-len(more)]...)
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "migrated") {
		t.Errorf("a process with the old settings: %v\n%s", err, out)
	}
	// The process that still runs on the old log does no harm to the new checkpoints.
	goesOn(ctx, t, env, first, before)
	onKafka.kill()

	pool, err := pgxpool.New(ctx, read)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	states, err := projections.List(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.Checkpoint.Acceptance.Era != 3 || s.Stopped != nil || s.Partition > 6 {
			t.Errorf("%s stands at %+v in partition %d", s.Projection, s.Checkpoint, s.Partition)
		}
	}
	if len(states)%7 != 0 {
		t.Errorf("%d checkpoints", len(states))
	}
}

// migrated runs a migration and answers the settings that it printed.
func migrated(ctx context.Context, t *testing.T, env []string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, append([]string{"--json"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("migrate: %v\n%s", err, said.String())
	}
	var done struct {
		Commits, Events int
		Settings        map[string]string
	}
	if err := json.Unmarshal(out, &done); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if done.Commits < 5 || done.Events < 5 {
		t.Errorf("%s", out)
	}
	t.Logf("%s%s", said.String(), out)
	var set []string
	for name, value := range done.Settings {
		set = append(set, name+"="+value)
	}
	return set
}

// goesOn starts a server with the settings, and sees the user go on there.
func goesOn(ctx context.Context, t *testing.T, env []string, first device.Result, before []entry) *process {
	t.Helper()
	p := serve(t, env, "api,gateway,writer,projector,effects,policies,publisher")
	p.ready(ctx)
	client := api.New(p.url())
	account, err := client.Login(ctx, mover, "a long enough password")
	if err != nil {
		t.Fatal(err)
	}
	u := &user{Client: client, t: t, p: p, scope: account.Scope}
	// The position is one of the old log.
	if now := u.timeline(ctx, first.SessionID, first.Position); !reflect.DeepEqual(before, now) {
		t.Errorf("the timeline was %+v and is %+v", before, now)
	}
	d := u.device(nil)
	next, err := d.Send(device.Request{Message: fmt.Sprintf("Create a task called Number %s", p.addr)}).Wait(ctx)
	if err != nil || next.Err != nil {
		t.Fatalf("after the migration: %v, %v\n%s", err, next.Err, p.said())
	}
	if got := u.timeline(ctx, next.SessionID, next.Position); count(got, "run_end") != 1 {
		t.Errorf("the new thread's timeline is %+v", got)
	}
	return p
}
