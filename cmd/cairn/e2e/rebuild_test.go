package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
)

// world is what anybody outside sees of an installation: what was asked of models, sent to devices, and written.
type world struct {
	models, frames int
	ends           map[string]int64
}

func (w world) String() string {
	return fmt.Sprintf("%d model calls, %d frames, topics end at %v", w.models, w.frames, w.ends)
}

// TestARebuildOfEverythingRepeatsNothing: all read models are filled anew and read, twice, while one run waits for its device and
// others are done. No model is called, no tool, no frame is sent, and nothing is written to any topic. The run that
// waits, whose effect and timer stand in the new generations then, goes on when its device comes, and is done once.
func TestARebuildOfEverythingRepeatsNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	models, err := modeltest.Start(modeltest.Playing(offline.New()))
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	p := newProcess(t, "CAIRN_MODEL_URL="+models.URL, "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	u := newUser(ctx, t, p)
	var frames atomic.Int64
	d := u.device(func(o *device.Options) { o.OnFrame = func(device.Frame) { frames.Add(1) } })
	for _, title := range []string{"Buy milk", "Call Ada"} {
		result, err := d.Send(device.Request{Message: "Create a task called " + title}).Wait(ctx)
		if err != nil || result.Err != nil {
			t.Fatal(err, result.Err)
		}
	}
	other := newUser(ctx, t, p)
	id, db := uuid.NewString(), filepath.Join(t.TempDir(), "device.db")
	gone := visit(ctx, t, other, id, db)
	poll(ctx, t, "the device was seen", func() bool { return strings.Contains(tailed(ctx, t, p, "--scope", other.scope), "device.seen") })
	gone()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		body := map[string]string{"message": "Create a task called Buy bread", "device_id": id}
		if _, err := other.Do(ctx, http.MethodPost, "/api/v1/chat", body, nil); err != nil && ctx.Err() == nil {
			t.Errorf("the request that waits: %v", err)
		}
	})
	run := waiting(ctx, t, other)

	look := func() world {
		return world{models: len(models.Requests()), frames: int(frames.Load()), ends: topicEnds(ctx, t, p.brokers())}
	}
	before := look()
	poll(ctx, t, "everything is published", func() bool {
		pass(ctx, t, time.Second)
		was := before
		before = look()
		return before.String() == was.String()
	})
	for round := range 2 {
		for _, done := range rebuilt(ctx, t, p, "--all") {
			if !done.Clean || !done.Swapped || done.Replaces != done.Generation-1 {
				t.Errorf("round %d: %+v", round, done)
			}
		}
		// Effects act on what is caught up: that is known five seconds after a swap, at the latest.
		pass(ctx, t, 7*time.Second)
	}
	if after := look(); after.String() != before.String() {
		t.Errorf("before: %v; after two rebuilds of everything: %v", before, after)
	}

	leave := visit(ctx, t, other, id, db)
	defer leave()
	var record struct{ Status string }
	poll(ctx, t, "the run that waited completed", func() bool {
		return other.Get(ctx, "/api/v1/runs/"+run, &record) == nil && record.Status == "completed"
	})
	if n := strings.Count(tailed(ctx, t, p, "--run", run), "thread.tool_call_completed"); n != 1 {
		t.Errorf("its call was done %d times", n)
	}
}

// tailed is the log without content.
func tailed(ctx context.Context, t *testing.T, p *process, args ...string) string {
	t.Helper()
	out, err := p.run(ctx, append([]string{"events", "tail", "--sealed", "--last", "0"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// waiting is the run of the user's only thread, once it waits.
func waiting(ctx context.Context, t *testing.T, u *user) (run string) {
	t.Helper()
	poll(ctx, t, "the run waits", func() bool {
		var threads struct {
			Data []struct {
				ActiveRun *string `json:"active_run"`
			} `json:"data"`
		}
		if err := u.Get(ctx, "/api/v1/threads", &threads); err != nil || len(threads.Data) == 0 || threads.Data[0].ActiveRun == nil {
			return false
		}
		run = *threads.Data[0].ActiveRun
		var record struct{ Status string }
		return u.Get(ctx, "/api/v1/runs/"+run, &record) == nil && record.Status == "waiting"
	})
	return run
}

func pass(ctx context.Context, t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}

// topicEnds is where every topic ends.
func topicEnds(ctx context.Context, t *testing.T, brokers []string) map[string]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets, err := kadm.NewClient(client).ListEndOffsets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int64{}
	offsets.Each(func(o kadm.ListedOffset) { ends[o.Topic] += o.Offset })
	return ends
}

// rebuiltModel is what the command says of a read model that is done.
type rebuiltModel struct {
	Projection string
	Generation int
	Replaces   int
	TakenUp    bool `json:"taken_up"`
	Clean      bool
	Swapped    bool
	Error      string
}

// rebuilt runs a rebuild to its end.
func rebuilt(ctx context.Context, t *testing.T, p *process, args ...string) (done []rebuiltModel) {
	t.Helper()
	out, err := p.run(ctx, append([]string{"projections", "rebuild", "--json"}, args...)...)
	if err != nil {
		t.Fatalf("rebuild: %v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		var model rebuiltModel
		if json.Unmarshal([]byte(line), &model) == nil && model.Projection != "" {
			done = append(done, model)
		}
	}
	if len(done) == 0 {
		t.Fatalf("nothing was rebuilt:\n%s", out)
	}
	return done
}
