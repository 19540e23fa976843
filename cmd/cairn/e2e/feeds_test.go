package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/export"
	"github.com/cairnhq/cairn/streams/schemas"
)

// logged is an event as `cairn events tail --json` prints it.
type logged struct {
	ID        string
	Type      string
	Stream    string
	Position  uint64
	Content   json.RawMessage
	Partition int32
	Offset    int64
}

// TestTheFeedsOfARun looks at a real run from outside: what the log has is on the feeds, once, each with the schema that
// it names, and in the exports; and nothing that was said is in the clear.
func TestTheFeedsOfARun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := newProcess(t)
	p.start(ctx)
	converse(ctx, t, newUser(ctx, t, p))
	events := logOf(ctx, t, p)
	if len(events) < 20 {
		t.Fatalf("the log has %d events", len(events))
	}
	want := map[string][]string{}
	for _, e := range events {
		name := "accounts"
		if strings.HasPrefix(e.Type, "thread.") {
			name = "threads"
		}
		want[name] = append(want[name], e.ID)
	}
	words := spoken(events)
	for name, ids := range want {
		records := consume(ctx, t, p, "cairn.feed."+name, len(ids))
		var got []string
		for _, r := range records {
			got = append(got, headerOf(r, "ce_id"))
			validate(t, r)
			hiddenIn(t, r, words)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("the feed %s carries\n%v\nand the log has\n%v", name, got, ids)
		}
	}
	exported(ctx, t, p, events, words)
	if code := p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
}

// logOf is the log as the operator's command prints it.
func logOf(ctx context.Context, t *testing.T, p *process) []logged {
	t.Helper()
	out, err := p.run(ctx, "events", "tail", "--last", "0", "--json")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var events []logged
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e logged
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		events = append(events, e)
	}
	return events
}

// spoken are the texts that the log holds sealed.
func spoken(events []logged) []string {
	var words []string
	for _, e := range events {
		var content struct{ Text string }
		if len(e.Content) > 0 && json.Unmarshal(e.Content, &content) == nil && len(content.Text) > 12 {
			words = append(words, content.Text)
		}
	}
	return append(words, "Buy milk")
}

func consume(ctx context.Context, t *testing.T, p *process, topic string, n int) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.brokers()...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for len(records) < n {
		f := cl.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatalf("%s has %d of %d events: %v", topic, len(records), n, err)
		}
		records = append(records, f.Records()...)
	}
	return records
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// validate checks a record's data against the schema that it names.
func validate(t *testing.T, r *kgo.Record) {
	t.Helper()
	typ, _, _ := strings.Cut(headerOf(r, "ce_type"), ".v")
	major := schemas.Newest(typ)
	text, err := schemas.Read(typ, major)
	if err != nil || headerOf(r, "ce_dataschema") != schemas.URI(typ, major) {
		t.Fatalf("a %s names the schema %s: %v", typ, headerOf(r, "ce_dataschema"), err)
	}
	document, err1 := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	value, err2 := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
	if err1 != nil || err2 != nil {
		t.Fatalf("%v, %v", err1, err2)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("x.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("x.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %v", typ, err)
	}
}

func hiddenIn(t *testing.T, r *kgo.Record, words []string) {
	t.Helper()
	all := append([]byte(nil), r.Value...)
	for _, h := range r.Headers {
		all = append(append(all, ' '), h.Value...)
	}
	hidden(t, headerOf(r, "ce_type"), all, words)
}

func hidden(t *testing.T, what string, raw []byte, words []string) {
	t.Helper()
	for _, word := range words {
		if bytes.Contains(raw, []byte(word)) || bytes.Contains(raw, []byte(base64.StdEncoding.EncodeToString([]byte(word)))) {
			t.Errorf("%s holds %q in the clear", what, word)
		}
	}
}

// exported compares both exports with the log.
func exported(ctx context.Context, t *testing.T, p *process, events []logged, words []string) {
	t.Helper()
	dir := t.TempDir()
	lines, rows := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "events.parquet")
	for flag, file := range map[string]string{"--jsonl": lines, "--parquet": rows} {
		if out, err := p.run(ctx, "events", "export", flag, file); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	text, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	hidden(t, "the export", text, words)
	table, err := parquet.ReadFile[export.Row](rows)
	if err != nil {
		t.Fatal(err)
	}
	written := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(written) != len(events) || len(table) != len(events) {
		t.Fatalf("%d lines, %d rows, and the log has %d events", len(written), len(table), len(events))
	}
	for i, e := range events {
		var line struct {
			ID, Type, Source, Dataschema string
			Data                         json.RawMessage
		}
		if err := json.Unmarshal([]byte(written[i]), &line); err != nil {
			t.Fatalf("%v: %s", err, written[i])
		}
		row := table[i]
		if line.ID != e.ID || row.ID != e.ID || row.Stream != e.Stream || row.Position != int64(e.Position) || row.LogOffset != e.Offset ||
			row.Type != e.Type+".v1" || line.Type != row.Type || row.Data != string(line.Data) || "/scopes/"+row.Scope != line.Source {
			t.Fatalf("event %d is %+v in the log, %s as a line, %+v as a row", i, e, written[i], row)
		}
		hidden(t, "the export", []byte(row.Data), words)
	}
	// A range, and what is refused in words.
	if out, err := p.run(ctx, "events", "export", "--jsonl", "-", "--until", "2020-01-01"); err != nil || strings.Contains(out, "specversion") {
		t.Errorf("before there was anything: %v, %s", err, out)
	}
	for args, words := range map[string]string{"": "say where to", "--jsonl x --since yesterday": "is no time", "--jsonl x --scope me": "is no scope"} {
		if out, err := p.run(ctx, append([]string{"events", "export"}, strings.Fields(args)...)...); err == nil || !strings.Contains(out, words) {
			t.Errorf("export %s: %v, %s", args, err, out)
		}
	}
}
