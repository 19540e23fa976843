package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TestPublishing is the other process of TestAKilledProcessLeavesNoGapAndNoDouble: a broker on a directory, a pen that
// writes commits without end, and a publisher.
func TestPublishing(t *testing.T) {
	dir := os.Getenv("CAIRN_TEST_PUBLISH")
	if dir == "" {
		return
	}
	p := newReader(t, embedded(t, dir))
	p.random = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	at := p.read()
	p.position, p.after, p.offset = p.seen, at.After, at.After.Offset+1
	p.takeLead(at.Lead + 1)
	run(t, p.publisher(alone).Run)
	fmt.Println("publishing")
	for {
		p.print(1 + p.random.IntN(20))
	}
}

// embedded is a broker on a directory.
func embedded(t *testing.T, dir string) kafka.Config {
	t.Helper()
	e, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	config := kafka.Config{Seeds: e.Seeds(), LiveSeeds: e.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return config
}

func alone(c *kafka.PublisherConfig) { c.Fencing = kafka.Alone }

// read folds the whole log into what the feeds must carry.
func (p *press) read() streams.Acceptance {
	p.t.Helper()
	tailer, err := kafka.NewTailer(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	defer tailer.Close()
	at, end := streams.Start(), p.end(p.config.Topics.Log())
	p.want, p.seen = map[string][]string{}, 0
	enough := errors.New("enough")
	if end == 0 {
		return at.Acceptance
	}
	err = tailer.Tail(context.Background(), 0, at, func(_ context.Context, b streams.Batch) error {
		at = b.Next
		for _, c := range b.Commits {
			for _, e := range c.Events {
				name, err := feed.Of(e.Stream)
				if err != nil {
					return err
				}
				p.want[name] = append(p.want[name], e.ID)
				p.seen = e.Position
			}
		}
		if at.Next >= end {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		p.t.Fatal(err)
	}
	return at.Acceptance
}

// TestAKilledProcessLeavesNoGapAndNoDouble kills broker and publisher together, as only the embedded ones are, at
// moments that a seed draws.
func TestAKilledProcessLeavesNoGapAndNoDouble(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	for range 8 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestPublishing$")
		cmd.Env = append(os.Environ(), "CAIRN_TEST_PUBLISH="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 64)
		if n, err := out.Read(said); err != nil || string(said[:n]) != "publishing\n" {
			t.Errorf("the process said %q, %v", said[:n], err)
		}
		timer := time.NewTimer(time.Duration(20+random.IntN(300)) * time.Millisecond)
		<-timer.C
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	p := newReader(t, embedded(t, dir))
	before := map[string]int{}
	for _, name := range feed.Names() {
		before[name] = len(p.carried(name))
	}
	publisher := p.publisher(alone)
	run(t, publisher.Run)
	p.level(publisher)
	p.read()
	p.check()
	t.Logf("%d positions; published before the last start: %v", p.seen, before)
	if p.seen == 0 || before["threads"] == 0 {
		t.Error("nothing was published while it was being killed")
	}
}
