package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TestADefectStopsEverybodyAndAVoidLetsThemGoOn plants a counted commit that no correct writer writes, one whose position
// is not the next. Nobody goes past it, and the log of the process says what to do. A record that is not at fault can't be
// voided; once the defect is, everybody goes on, and nothing of it is seen.
func TestADefectStopsEverybodyAndAVoidLetsThemGoOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p := newProcess(t, "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	u := newUser(ctx, t, p)
	d := u.device(nil)
	first, err := d.Send(device.Request{Message: "Create a task called Before"}).Wait(ctx)
	if err != nil || first.Err != nil {
		t.Fatal(err, first.Err)
	}
	offset := plant(ctx, t, p, domain.Scope(u.scope))

	short, stop := context.WithTimeout(ctx, 4*time.Second)
	defer stop()
	var problem error
	for short.Err() == nil && problem == nil {
		_, problem = u.Do(short, "POST", "/api/v1/threads", map[string]string{"title": "nobody decides this"}, nil)
	}
	if problem == nil {
		t.Error("the writer went past the defect")
	}
	advice := fmt.Sprintf("cairn log void 0 %d", offset)
	poll(ctx, t, "the log says what to do", func() bool { return strings.Contains(p.said(), advice) })

	if out, err := p.run(ctx, "log", "void", "0", "1", "--reason", "a mistake", "--yes"); err == nil || !strings.Contains(out, "hole") {
		t.Errorf("a record that is sound was voided: %v\n%s", err, out)
	}
	out, err := p.run(ctx, "log", "void", "0", fmt.Sprint(offset), "--reason", "planted by a test", "--yes", "--json")
	if err != nil {
		t.Fatalf("void: %v\n%s", err, out)
	}
	var done struct {
		Scope  string
		Passed []string
	}
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.Scope != u.scope || len(done.Passed) > 0 {
		t.Errorf("void said %s, %v", out, err)
	}
	next, err := d.Send(device.Request{Message: "Create a task called After"}).Wait(ctx)
	if err != nil || next.Err != nil {
		t.Fatalf("after the void: %v, %v", err, next.Err)
	}
	if got := u.timeline(ctx, next.SessionID, next.Position); count(got, "run_end") != 1 {
		t.Errorf("after the void the timeline is %+v", got)
	}
	if out, err := p.run(ctx, "events", "tail", "--last", "0", "--json"); err != nil || strings.Contains(out, "planted") {
		t.Errorf("the log reads as %v\n%s", err, out)
	}
	p.ready(ctx)
}

// plant appends a lead that counts, and under it a commit that leaves a gap in a scope's positions.
func plant(ctx context.Context, t *testing.T, p *process, scope domain.Scope) (offset int64) {
	t.Helper()
	seeds := p.brokers()
	config := kafka.Config{Seeds: seeds, Topics: kafka.EmbeddedTopics()}
	tailer, err := kafka.NewTailer(config)
	if err != nil {
		t.Fatal(err)
	}
	defer tailer.Close()
	at, err := tailer.Live(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lead := streams.Mark{Sort: streams.SortLead, Era: 1, Lead: at.Acceptance.Lead + 1, Writer: "planted"}
	value, err := codec.EncodeLead(codec.Lead{Kind: codec.KindLead, Era: 1, Lead: lead.Lead, Writer: lead.Writer})
	if err != nil {
		t.Fatal(err)
	}
	id := streams.CommandID(scope, "planted")
	commit := streams.Commit{
		Era: 1, Lead: lead.Lead, Writer: lead.Writer, CommandOffset: at.Acceptance.After.Offset, After: at.Acceptance.After,
		Scope: scope, CommandID: id, DecidedAt: "2026-11-30T00:00:00.000000Z", Actor: []byte(`{"kind":"system"}`),
		Events: []streams.Recorded{{
			ID: streams.EventID(id, 0), Scope: scope, Stream: "thread-planted", Version: 1, Position: 1000, Type: "thread.opened", Schema: 1,
			Data: []byte(`{}`), Hash: []byte("planted"),
		}},
	}
	body, err := codec.EncodeCommit(commit)
	if err != nil {
		t.Fatal(err)
	}
	topic := config.Topics.Log()
	results := client.ProduceSync(ctx,
		&kgo.Record{Topic: topic, Headers: kafka.LeadHeaders(lead), Value: value},
		&kgo.Record{Topic: topic, Key: []byte(scope), Headers: kafka.CommitHeaders(commit, 1000), Value: body})
	if err := errors.Join(results[0].Err, results[1].Err); err != nil {
		t.Fatal(err)
	}
	return results[1].Record.Offset
}
