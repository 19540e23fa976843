package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TestWhatIsParkedIsReplayedOrDropped: two commands come as no edge sends them. The one that can be read is tried again
// under a new id and accepted, once; the other can only be given up. Both stay to be looked at.
func TestWhatIsParkedIsReplayedOrDropped(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := newProcess(t)
	p.start(ctx)
	u := newUser(ctx, t, p)
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, body := range []string{
		fmt.Sprintf(`{"v":1,"scope":%q,"id":%q,"actor":{"kind":"user","id":"x"},"type":"thread.open","schema":1,"data":{"thread":"lost-and-found"}}`, u.scope, uuid.NewString()),
		"{",
	} {
		r := &kgo.Record{
			Topic: kafka.EmbeddedTopics().Commands(), Key: []byte(u.scope), Value: []byte(body),
			Headers: kafka.CommandHeaders(domain.Scope(u.scope), uuid.NewString()), // another id than the body's
		}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var items []parked
	poll(ctx, t, "both are parked", func() bool {
		items = p.parked(ctx, "list")
		return len(items) == 2
	})
	for _, i := range items {
		if i.State != "parked" || i.Kind != "command" || i.Scope != u.scope || i.Reason == "" {
			t.Errorf("parked as %+v", i)
		}
	}
	good, bad := items[0], items[1]
	if shown := p.parked(ctx, "show", good.ID); len(shown) != 1 || !strings.Contains(string(shown[0].Content), "lost-and-found") {
		t.Errorf("shown as %+v", shown)
	}
	if out, err := p.run(ctx, "parked", "replay", bad.ID); err == nil || !strings.Contains(out, "can't be read") || !strings.Contains(out, "stays parked") {
		t.Errorf("replaying what can't be read said %v, %s", err, out)
	}
	if replayed := p.parked(ctx, "replay", good.ID); len(replayed) != 1 || !strings.Contains(replayed[0].Why, "accepted") {
		t.Errorf("replayed: %+v", replayed)
	}
	if out, err := p.run(ctx, "parked", "replay", good.ID); err == nil || !strings.Contains(out, "already") {
		t.Errorf("replaying it again said %v, %s", err, out)
	}
	if out, err := p.run(ctx, "parked", "drop", bad.ID); err == nil || !strings.Contains(out, "--reason") {
		t.Errorf("dropping without a reason said %v, %s", err, out)
	}
	p.parked(ctx, "drop", bad.ID, "--reason", "nonsense")
	if left := p.parked(ctx, "list"); len(left) != 0 {
		t.Errorf("still parked: %+v", left)
	}
	all := p.parked(ctx, "list", "--all")
	if len(all) != 2 || all[0].State != "replayed" || all[1].State != "dropped" || all[1].Why != "nonsense" {
		t.Errorf("in the end: %+v", all)
	}
	if err := u.Get(ctx, "/api/v1/threads/lost-and-found", nil); err != nil {
		t.Errorf("the replayed command's thread: %v", err)
	}
}

// parked is an item as `cairn parked --json` prints it.
type parked struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Scope   string          `json:"scope"`
	Reason  string          `json:"reason"`
	State   string          `json:"state"`
	Why     string          `json:"why"`
	Content json.RawMessage `json:"content"`
}

// parked runs a command that must succeed.
func (p *process) parked(ctx context.Context, args ...string) []parked {
	p.t.Helper()
	out, err := p.run(ctx, append([]string{"parked", "--json"}, args...)...)
	if err != nil {
		p.t.Fatalf("parked %v: %v\n%s", args, err, out)
	}
	var items []parked
	for line := range strings.Lines(out) {
		var i parked
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			p.t.Fatalf("parked %v printed %q", args, line)
		}
		items = append(items, i)
	}
	return items
}
