package kafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// start starts an embedded broker on dir (empty: in memory) with its topics, and stops it with the test.
func start(t testing.TB, c kafka.EmbeddedConfig) (*kafka.Embedded, kafka.Config) {
	t.Helper()
	e, err := kafka.StartEmbedded(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	config := kafka.Config{Seeds: e.Seeds(), LiveSeeds: e.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, config
}

func client(t testing.TB, seeds []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t testing.TB, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, seeds []string, topic string, n int) []string {
	t.Helper()
	cl := client(t, seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	var values []string
	for len(values) < n {
		f := cl.PollFetches(t.Context())
		if err := f.Err0(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func TestDataSurvivesCloseAndReopen(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for round := range 3 {
		e, config := start(t, kafka.EmbeddedConfig{Dir: dir, Sync: true})
		topic := config.Topics.Log()
		cl := client(t, e.Seeds())
		value := fmt.Sprintf("round %d", round)
		produce(t, cl, topic, value)
		want = append(want, value)
		if got := read(t, e.Seeds(), topic, len(want)); strings.Join(got, ",") != strings.Join(want, ",") {
			t.Fatalf("round %d: read %q, want %q", round, got, want)
		}
		cl.Close()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHolder is the other process of TestASecondProcessIsRefused.
func TestHolder(*testing.T) {
	dir := os.Getenv("CAIRN_TEST_HOLD")
	if dir == "" {
		return
	}
	_, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir})
	fmt.Println("answer:", err, errors.Is(err, kafka.ErrLocked))
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	e, _ := start(t, kafka.EmbeddedConfig{Dir: dir})
	ask := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHolder$")
		cmd.Env = append(os.Environ(), "CAIRN_TEST_HOLD="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := ask(); !strings.Contains(out, fmt.Sprintf("held by process %d true", os.Getpid())) {
		t.Fatalf("the second process was answered %q", out)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if out := ask(); !strings.Contains(out, "answer: <nil>") {
		t.Fatalf("after the first ended the second was answered %q", out)
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	e, _ := start(t, kafka.EmbeddedConfig{Dir: dir})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "format.json"), []byte(`{"format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refusal leaves nothing locked
		if _, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir}); !errors.Is(err, kafka.ErrNewerData) || !strings.Contains(err.Error(), "format 99") {
			t.Fatalf("answered %v", err)
		}
	}
}

func TestNothingIsAcknowledgedOnceAWriteFailed(t *testing.T) {
	dir := t.TempDir()
	fatal := make(chan error, 1)
	e, config := start(t, kafka.EmbeddedConfig{Dir: dir, Fatal: func(err error) { fatal <- err }})
	// A file where the partition's directory belongs: the first write fails.
	partition := filepath.Join(dir, "broker", "partitions", config.Topics.Log()+"-0")
	if err := os.RemoveAll(partition); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(partition), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(partition, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cl := client(t, e.Seeds())
	acknowledged := make(chan error, 1)
	cl.Produce(t.Context(), &kgo.Record{Topic: config.Topics.Log(), Value: []byte("x")}, func(_ *kgo.Record, err error) { acknowledged <- err })
	select {
	case err := <-fatal:
		if !strings.Contains(err.Error(), "persist") {
			t.Fatalf("fatal said %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told")
	}
	select {
	case err := <-acknowledged:
		if err == nil {
			t.Fatal("a write that failed was acknowledged")
		}
	default:
	}
	cl.Close()
	if err := e.Close(); err == nil {
		t.Fatal("Close says nothing of the fault")
	}
}

// segment is the file of the log's first segment.
func segment(dir string, topics kafka.Topics) string {
	return filepath.Join(dir, "broker", "partitions", topics.Log()+"-0", "0.dat")
}

func written(t *testing.T, dir string) (kafka.Topics, []byte) {
	t.Helper()
	e, config := start(t, kafka.EmbeddedConfig{Dir: dir})
	cl := client(t, e.Seeds())
	produce(t, cl, config.Topics.Log(), "one", "two", "three")
	cl.Close()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(segment(dir, config.Topics))
	if err != nil {
		t.Fatal(err)
	}
	return config.Topics, raw
}

func TestAWriteBrokenOffIsDroppedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	topics, raw := written(t, dir)
	third := len(raw) / 3 // batches of nearly one size
	for _, cut := range []int{1, 5, 30, third - 5} {
		if err := os.WriteFile(segment(dir, topics), raw[:len(raw)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		e, config := start(t, kafka.EmbeddedConfig{Dir: dir})
		if got := strings.Join(read(t, e.Seeds(), topics.Log(), 2), ","); got != "one,two" {
			t.Fatalf("cut %d: read %q", cut, got)
		}
		cl := client(t, e.Seeds())
		produce(t, cl, config.Topics.Log(), "four")
		if got := strings.Join(read(t, e.Seeds(), topics.Log(), 3), ","); got != "one,two,four" {
			t.Fatalf("cut %d: read %q", cut, got)
		}
		cl.Close()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A power failure while a batch was written may leave a file of its full length with sectors of zeros: the batch was not
// acknowledged, and is dropped. The same zeros in a batch with another behind it were.
func TestSectorsThatWereNeverWrittenAreDropped(t *testing.T) {
	dir := t.TempDir()
	e, config := start(t, kafka.EmbeddedConfig{Dir: dir, Sync: true})
	cl := client(t, e.Seeds())
	var long string // that no compression makes shorter
	for len(long) < 2400 {
		long += rand.Text()
	}
	produce(t, cl, config.Topics.Log(), "one", long)
	one := size(t, segment(dir, config.Topics))
	produce(t, cl, config.Topics.Log(), long)
	cl.Close()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(segment(dir, config.Topics))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int{(one/512 + 1) * 512, len(raw) / 512 * 512} {
		for _, middle := range []bool{false, true} {
			lost := append([]byte(nil), raw...)
			clear(lost[from:])
			if middle { // one sector only, and what is behind it was written
				copy(lost[min(from+512, len(raw)):], raw[min(from+512, len(raw)):])
			}
			if err := os.WriteFile(segment(dir, config.Topics), lost, 0o600); err != nil {
				t.Fatal(err)
			}
			e, _ := start(t, kafka.EmbeddedConfig{Dir: dir})
			if got := strings.Join(read(t, e.Seeds(), config.Topics.Log(), 2), ","); got != "one,"+long {
				t.Errorf("zeros from %d of %d: read %.60q", from, len(raw), got)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	damaged := append([]byte(nil), raw...)
	clear(damaged[1024:1536]) // within the second batch, and the third is behind it
	if err := os.WriteFile(segment(dir, config.Topics), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir}); err == nil || !strings.Contains(err.Error(), "damaged") {
		e.Close()
		t.Errorf("zeros in an acknowledged batch: answered %v", err)
	}
}

func size(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

func TestDamagedDataIsRefusedAndLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	topics, raw := written(t, dir)
	for _, at := range []int{70, len(raw) - 2} { // inside the first batch, and inside the last
		damaged := append([]byte(nil), raw...)
		damaged[at] ^= 0xff
		if err := os.WriteFile(segment(dir, topics), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if e, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir}); err == nil || !strings.Contains(err.Error(), "damaged") {
				e.Close()
				t.Fatalf("byte %d: answered %v", at, err)
			}
			if now, err := os.ReadFile(segment(dir, topics)); err != nil || string(now) != string(damaged) {
				t.Fatalf("byte %d: the file was changed (%v)", at, err)
			}
		}
	}
}

func TestFreeRefusesOnAFullDisk(t *testing.T) {
	e, _ := start(t, kafka.EmbeddedConfig{Dir: t.TempDir(), MinFree: 1})
	if err := e.Free(); err != nil {
		t.Fatal(err)
	}
	e, _ = start(t, kafka.EmbeddedConfig{Dir: t.TempDir(), MinFree: 1 << 62})
	var busy *streams.Busy
	if err := e.Free(); !errors.As(err, &busy) {
		t.Fatalf("answered %v", err)
	}
}

func TestTopicsAreCheckedAtEveryStart(t *testing.T) {
	e, config := start(t, kafka.EmbeddedConfig{})
	ctx := context.Background()
	if err := config.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	cl := client(t, e.Seeds())
	admin := kadm.NewClient(cl)
	more := config
	more.Topics.Partitions = 4
	if err := more.Ensure(ctx); err == nil || !strings.Contains(err.Error(), "has 1 partitions, not 4") {
		t.Fatalf("another partition count: %v", err)
	}
	day := "86400000"
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &day}}, config.Topics.Log()); err != nil {
		t.Fatal(err)
	}
	if err := config.Ensure(ctx); err == nil || !strings.Contains(err.Error(), "retention.ms=86400000, not -1") {
		t.Fatalf("another retention: %v", err)
	}
	forever := "-1"
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &forever}}, config.Topics.Log()); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, config.Topics.Log(), "x")
	config.Stored = func(context.Context, int32) (streams.Checkpoint, error) { return streams.Checkpoint{Next: 1}, nil }
	if err := config.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	config.Stored = func(context.Context, int32) (streams.Checkpoint, error) { return streams.Checkpoint{Next: 2}, nil }
	if err := config.Ensure(ctx); err == nil || !strings.Contains(err.Error(), "lost its end") {
		t.Fatalf("an end below a checkpoint: %v", err)
	}
}

func TestPartitionsAreKafkas(t *testing.T) {
	topic := kgo.StickyKeyPartitioner(nil).ForTopic("x")
	for i := range 1000 {
		scope := fmt.Sprintf("user-%0*d", i%40, i)
		want := topic.Partition(&kgo.Record{Key: []byte(scope)}, 32)
		if got := kafka.PartitionOf(domain.Scope(scope), 32); int(got) != want {
			t.Fatalf("%s lies in %d, not %d", scope, got, want)
		}
	}
}
