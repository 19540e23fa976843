//go:build kafka

package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafkatest"
)

// An acknowledged record outlives the loss of any one broker of three, and a broker that was away comes back to its
// place.
func TestKafkaThreeBrokersOutliveOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, err := kafkatest.Start(ctx, kafkatest.Config{
		Dir: t.TempDir(), Brokers: 3, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Properties: map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 3, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produced := 0
	produce := func() {
		t.Helper()
		for p := range int32(3) {
			if err := client.ProduceSync(ctx, &kgo.Record{Partition: p, Value: fmt.Append(nil, produced)}).FirstErr(); err != nil {
				t.Fatalf("partition %d: %v", p, err)
			}
		}
		produced++
	}
	produce()
	for _, step := range []struct {
		name    string
		out, in func(int) error
	}{
		{"kill", c.Kill, func(n int) error { return c.StartBroker(ctx, n) }},
		{"stop", c.Stop, func(n int) error { return c.StartBroker(ctx, n) }},
		{"pause", c.Pause, c.Resume},
	} {
		if err := step.out(2); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		began := time.Now()
		produce()
		t.Logf("%s: wrote again after %s", step.name, time.Since(began))
		if err := step.in(2); err != nil {
			t.Fatalf("after %s: %v", step.name, err)
		}
		inSync(ctx, t, client, 3)
	}
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil || o.Offset != int64(produced) {
			t.Errorf("partition %d ends at %d (%v), not %d", o.Partition, o.Offset, o.Err, produced)
		}
	})
}

// inSync waits until every partition of t has n replicas in sync.
func inSync(ctx context.Context, t *testing.T, client *kgo.Client, n int) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := kadm.NewClient(client).ListTopics(ctx, "t")
		short := err
		for _, p := range topics["t"].Partitions.Sorted() {
			if len(p.ISR) < n {
				short = fmt.Errorf("partition %d has %v in sync", p.Partition, p.ISR)
			}
		}
		if short == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v: %v", ctx.Err(), short)
		case <-tick.C:
		}
	}
}

// The brokers end with the process that started them, even if that one is killed.
func TestKafkaEndsWithItsParent(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this program
	child.Env = append(os.Environ(), startIn+"="+t.TempDir())
	child.Stderr = t.Output()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var seed string
	_, err = fmt.Fscanln(out, &seed)
	if killed := child.Process.Kill(); err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	child.Wait() //nolint:errcheck // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", seed)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			t.Fatalf("the broker at %s outlived its parent: %v", seed, err)
		}
		conn.Close()
	}
}
