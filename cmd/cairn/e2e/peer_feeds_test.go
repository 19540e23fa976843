//go:build peers

package e2e_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// TestPeerFeeds reads the feeds of a real run with kcat, and what kcat prints with the CloudEvents library for
// JavaScript. They find what the log has, and no byte of what was said. On the embedded broker, or on the cluster that
// CAIRN_TEST_KAFKA names.
func TestPeerFeeds(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if os.Getenv("CAIRN_TEST_PEERS") == "" {
		t.Fatal("CAIRN_TEST_PEERS must be the folder clients/peers with its packages installed: use make test-peers")
	}
	p, brokers, prefix := peerRun(ctx, t)
	converse(ctx, t, newUser(ctx, t, p))
	events := logOf(ctx, t, p)
	words := spoken(events)
	read := 0
	for _, feed := range []string{"accounts", "threads"} {
		var want []logged
		for _, e := range events {
			if strings.HasPrefix(e.Type, "thread.") == (feed == "threads") {
				want = append(want, e)
			}
		}
		raw := kcat(ctx, t, brokers, prefix+".feed."+feed, len(want))
		hidden(t, "what kcat prints of "+feed, raw, words)
		got := understood(ctx, t, raw)
		if len(got) != len(want) {
			t.Fatalf("kcat and the library read %d events of %s, and the log has %d", len(got), feed, len(want))
		}
		byID := map[string]cloudEvent{}
		for _, e := range got {
			byID[e.ID] = e
		}
		for _, w := range want {
			e := byID[w.ID]
			if e.Type != w.Type+".v1" || e.Subject != w.Stream || e.Position != fmt.Sprint(w.Position) || len(e.Data) == 0 || e.Specversion != "1.0" {
				t.Errorf("the library understood %+v, and the log has %+v", e, w)
			}
		}
		read += len(got)
	}
	t.Logf("%d events read by kcat and understood by the library on %s", read, brokers)
}

// peerRun is a running Cairn: `dev`, or `serve` on the cluster under test.
func peerRun(ctx context.Context, t *testing.T) (p *process, brokers, prefix string) {
	t.Helper()
	seeds := kafkatest.Seeds(t)
	if seeds == nil {
		p := newProcess(t)
		p.start(ctx)
		return p, strings.Join(p.brokers(), ","), "cairn"
	}
	topics := kafkatest.Broker(t).Topics
	env := []string{
		"CAIRN_BROKERS=" + strings.Join(seeds, ","), fmt.Sprint("CAIRN_REPLICATION=", topics.Replication), "CAIRN_PARTITIONS=4",
		"CAIRN_TOPIC_PREFIX=" + topics.Prefix, "CAIRN_LOG_LEVEL=warn", "CAIRN_MASTER_KEY=" + hex.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"CAIRN_DATABASE_URL=" + pgtest.DSN(t, migrations.Read), "CAIRN_VAULT_URL=" + pgtest.DSN(t, migrations.Vault),
	}
	p = serve(t, env, "api,gateway,writer,projector,effects,publisher")
	p.ready(ctx)
	p.data = t.TempDir()
	return p, strings.Join(seeds, ","), topics.Prefix
}

// kcat prints a feed to its end, until it has n events: the publisher may still be at it.
func kcat(ctx context.Context, t *testing.T, brokers, topic string, n int) []byte {
	t.Helper()
	var out []byte
	poll(ctx, t, "kcat has read "+topic, func() bool {
		cmd := exec.CommandContext(ctx, "kcat", "-C", "-q", "-J", "-e", "-o", "beginning", "-b", brokers, "-t", topic, "-X", "isolation.level=read_committed")
		var said bytes.Buffer
		cmd.Stderr = &said
		var err error
		if out, err = cmd.Output(); err != nil {
			t.Fatalf("kcat: %v: %s", err, said.String())
		}
		return bytes.Count(out, []byte("\n")) >= n
	})
	return out
}

// cloudEvent is an event as the library prints it.
type cloudEvent struct {
	ID, Type, Subject, Specversion, Position string
	Data                                     json.RawMessage
}

func understood(ctx context.Context, t *testing.T, raw []byte) []cloudEvent {
	t.Helper()
	dir := os.Getenv("CAIRN_TEST_PEERS")
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "feeds.mjs"))
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(raw), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the CloudEvents library: %v", err)
	}
	var events []cloudEvent
	d := json.NewDecoder(bytes.NewReader(out))
	for d.More() {
		var e cloudEvent
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}
