package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// theWay is how a request with one call on a device goes round, each step the child of the one before: from the frame on the
// socket by commands, log, effects, model and device back to the frame that ends it.
func theWay() []string {
	asked := func(command string) []string { return []string{"ask " + command, "decide " + command, "append"} }
	return slices.Concat(
		[]string{"home_request"}, asked("thread.post_message"),
		[]string{"effect route"}, asked("thread.decide_route"),
		[]string{"effect turn"}, asked("thread.complete_turn"),
		[]string{"execute_tool create_task", "tool_result"}, asked("thread.record_result"),
		[]string{"effect turn"}, asked("thread.complete_turn"),
		[]string{"deliver"},
	)
}

// A chat with a call on a device is one trace, from the client's frame to the frame that ends it, in one process.
func TestAChatIsOneTrace(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := newCollector(t)
	p := newProcess(t, "CAIRN_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=100", "CAIRN_LOG_FORMAT=json")
	p.start(ctx)
	trace := c.chat(ctx, newUser(ctx, t, p))
	for _, r := range consume(ctx, t, p, "cairn.feed.threads", 1) {
		if at := headerOf(r, "traceparent"); len(at) != 55 || at[3:35] != trace {
			t.Errorf("an event of the feed has the traceparent %q", at)
		}
	}
	told(ctx, t, p)
	c.Close() // a collector that is away keeps nobody
	began := time.Now()
	if code := p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("without its collector cairn took %s to end", took)
	}
}

// It is one trace, too, where one process holds the sockets and another decides, projects and acts.
func TestAChatIsOneTraceAcrossProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := newCollector(t)
	env := append(outside(kafkatest.Broker(t), 2, pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault), bytes.Repeat([]byte{7}, 32)),
		"CAIRN_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	const holds, acts = "api,gateway", "writer,projector,effects"
	front, back := serve(t, env, holds), serve(t, env, acts)
	front.ready(ctx)
	back.ready(ctx)
	trace := c.chat(ctx, newUser(ctx, t, &process{t: t, addr: front.addr}))
	for _, s := range c.of(trace) {
		want := acts
		switch {
		case s.Name == "home_request", s.Name == "deliver", s.Name == "tool_result", strings.HasPrefix(s.Name, "execute_tool"),
			s.Name == "ask thread.post_message", s.Name == "ask thread.record_result", s.Name == "ask thread.offer_call":
			want = holds
		}
		if s.roles != want {
			t.Errorf("%s was done by %s, wanted %s", s.Name, s.roles, want)
		}
	}
}

// chat asks for a task on a device and checks the trace of it.
func (c *collector) chat(ctx context.Context, u *user) (trace string) {
	t := c.t
	t.Helper()
	trace, client := random(16), random(8)
	d := u.device(nil)
	result, err := d.Send(device.Request{Message: "Create a task called Buy milk", Traceparent: "00-" + trace + "-" + client + "-01"}).Wait(ctx)
	if err != nil || result.Err != nil || !strings.Contains(result.Text, "Buy milk") {
		t.Fatalf("the request ended with %v, %v, %q", err, result.Err, result.Text)
	}
	ends := func() int {
		return slices.IndexFunc(c.of(trace), func(s span) bool { return s.attribute("cairn.event.type") == "thread.run_completed" })
	}
	poll(ctx, t, "the end was exported", func() bool { return ends() >= 0 })
	poll(ctx, t, "every append was projected, and all was exported", func() bool {
		all, seen := c.of(trace), c.linked("project", trace)
		known := map[string]bool{client: true}
		for _, s := range all {
			known[s.id()] = true
		}
		return !slices.ContainsFunc(all, func(s span) bool { return !known[s.parent()] || s.Name == "append" && !seen[s.id()] })
	})
	all := c.of(trace)
	spans := map[string]span{}
	for _, s := range all {
		spans[s.id()] = s
	}
	var way []string
	for s := all[ends()]; ; s = spans[s.parent()] {
		way = append(way, s.Name)
		if s.parent() == client {
			break
		}
	}
	slices.Reverse(way)
	if want := theWay(); !slices.Equal(way, want) {
		t.Errorf("the request went\n%s\nwanted\n%s", strings.Join(way, " > "), strings.Join(want, " > "))
	}
	c.aside(all, spans)
	for _, secret := range []string{"milk", "Milk", "@example.com", u.scope} {
		if c.got(secret) {
			t.Errorf("the spans have %q in them", secret)
		}
	}
	return trace
}

// aside checks what is not on the way itself.
func (c *collector) aside(all []span, spans map[string]span) {
	t := c.t
	t.Helper()
	chats, live, offers := 0, 0, 0
	for _, s := range all {
		under := "" // the client
		if above, ok := spans[s.parent()]; ok {
			under = above.Name
		}
		switch {
		case strings.HasPrefix(s.Name, "chat "):
			chats++
			if !strings.HasPrefix(under, "effect ") || s.attribute("gen_ai.operation.name") != "chat" || s.attribute("gen_ai.provider.name") != "offline" ||
				s.attribute("gen_ai.request.model") == "" || s.attribute("gen_ai.conversation.id") == "" {
				t.Errorf("a model call under %q has the attributes %v", under, s.Attributes)
			}
		case s.Name == "deliver" && s.attribute("cairn.event.type") == "provisional":
			live++
			if !strings.HasPrefix(under, "chat ") {
				t.Errorf("what streamed was delivered under %q", under)
			}
		case s.Name == "ask thread.offer_call":
			offers++
			if !strings.HasPrefix(under, "execute_tool ") {
				t.Errorf("the call was offered under %q", under)
			}
		}
	}
	if chats != 3 || live == 0 || offers != 1 { // the route, the turn that calls, the turn that tells
		t.Errorf("%d model calls, %d deliveries of what streamed, %d offers", chats, live, offers)
	}
}

// told checks that a problem and the log name the trace of a request over HTTP, and that a malformed one is ignored.
func told(ctx context.Context, t *testing.T, p *process) {
	t.Helper()
	trace, request := random(16), "request-"+random(4)
	ask := func(parent string) (id string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+"/api/v1/threads", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Traceparent", parent)
		r.Header.Set("X-Request-Id", request)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var problem struct {
			TraceID string `json:"traceId"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil || answer.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%s, %v", answer.Status, err)
		}
		return problem.TraceID
	}
	if got := ask("00-" + trace + "-" + random(8) + "-01"); got != trace {
		t.Errorf("the problem has the trace %q, wanted %q", got, trace)
	}
	if got := ask("nonsense"); len(got) != 32 || got == trace {
		t.Errorf("without a valid traceparent the problem has the trace %q", got)
	}
	for line := range strings.Lines(p.said()) {
		var said map[string]any
		if json.Unmarshal([]byte(line), &said) == nil && said["msg"] == "http" && said["trace_id"] == trace {
			if said["request_id"] != request || fmt.Sprint(said["span_id"]) == "" || said["route"] != "/api/v1/threads" {
				t.Errorf("the log says %s", line)
			}
			return
		}
	}
	t.Errorf("no line of the log names the trace %s", trace)
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}
