package device_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
)

func known() device.State { return device.State{}.Evolve(device.Introduced{Protocol: 3}) }

func after(t testing.TB, state device.State, commands ...device.Command) device.State {
	t.Helper()
	for _, c := range commands {
		events, err := state.Decide(c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		for _, e := range events {
			state = state.Evolve(e)
		}
	}
	return state
}

func read(id string) device.Command {
	return device.RequestData{Device: "d", RequestID: id, Action: "select", Table: "tasks", Payload: device.Payload{Fields: []byte(`{"filters":{"status":"todo"}}`)}}
}

func write(id, action string) device.Command {
	table := "tasks"
	if action == "vector_upsert" {
		table = ""
	}
	return device.RequestMutation{Device: "d", RequestID: id, Action: action, Table: table, Payload: device.Payload{Fields: []byte(`{"data":{"title":"x"}}`)}}
}

func offer(id string, started bool) device.Command { //nolint:revive // of a command's field
	return device.OfferRequest{Device: "d", RequestID: id, Started: started}
}

func answer(id string) device.Command {
	return device.RecordAnswer{Device: "d", By: "d", RequestID: id, Result: device.Result{Device: []byte(`{"rows":[]}`)}}
}

// TestWhatBecomesOfARequest: given what was decided before, a command leads to these events, or to a refusal.
func TestWhatBecomesOfARequest(t *testing.T) {
	failed := func(reason device.FailureReason) device.Event {
		return device.MutationFailed{RequestID: "r", Reason: reason}
	}
	large := answer("r").(device.RecordAnswer)
	large.Result.Device = []byte(`"` + strings.Repeat("x", device.MaxResult) + `"`)
	foreign := answer("r").(device.RecordAnswer)
	foreign.By = "phone"
	said := device.Result{Device: []byte(`{"rows":[]}`)}
	for name, c := range map[string]struct {
		given []device.Command
		when  device.Command
		then  []device.Event
		code  string
	}{
		"a request that was offered may be offered again": {[]device.Command{read("r"), offer("r", false)}, offer("r", false), nil, ""},
		"what is begun is said":                           {[]device.Command{write("r", "insert")}, offer("r", true), []device.Event{device.RequestOffered{RequestID: "r", Started: true}}, ""},
		"what was begun is not sent again":                {[]device.Command{write("r", "insert"), offer("r", true)}, offer("r", false), nil, device.CodeStarted},
		"an answered one is not sent again":               {[]device.Command{read("r"), answer("r")}, offer("r", false), nil, device.CodeEnded},
		"an unknown one is not sent":                      {nil, offer("r", false), nil, domain.CodeNotFound},
		"rows come":                                       {[]device.Command{read("r"), offer("r", false)}, answer("r"), []device.Event{device.DataAnswered{RequestID: "r", Result: said}}, ""},
		"a write is done":                                 {[]device.Command{write("r", "update"), offer("r", false)}, answer("r"), []device.Event{device.MutationCompleted{RequestID: "r", Result: said}}, ""},
		"an answer that comes before its offer counts":    {[]device.Command{read("r")}, answer("r"), []device.Event{device.DataAnswered{RequestID: "r", Result: said}}, ""},
		"a second answer is late":                         {[]device.Command{read("r"), answer("r")}, answer("r"), []device.Event{device.LateAnswerRecorded{RequestID: "r", Result: said}}, ""},
		"an answer to nothing is refused":                 {nil, answer("r"), nil, domain.CodeNotFound},
		"another device's answer is refused":              {[]device.Command{read("r")}, foreign, nil, device.CodeWrongDevice},
		"an answer that is too large is not kept":         {[]device.Command{write("r", "delete")}, large, []device.Event{device.MutationFailed{RequestID: "r", Reason: device.ResultTooLarge, Bytes: device.MaxResult + 2}}, ""},
		"an absent device was waited for":                 {[]device.Command{write("r", "insert")}, device.FireTimer{Device: "d", Timer: "wait:r"}, []device.Event{failed(device.Offline)}, ""},
		"a device that has it is not absent":              {[]device.Command{write("r", "insert"), offer("r", true)}, device.FireTimer{Device: "d", Timer: "wait:r"}, nil, ""},
		"a device that does not answer":                   {[]device.Command{write("r", "insert"), offer("r", true)}, device.FireTimer{Device: "d", Timer: "offer:r"}, []device.Event{failed(device.TimedOut)}, ""},
		"a stale timer changes nothing":                   {[]device.Command{read("r"), answer("r")}, device.FireTimer{Device: "d", Timer: "offer:r"}, nil, ""},
		"a lost one's outcome is unknown":                 {[]device.Command{write("r", "insert"), offer("r", true)}, device.LoseRequest{Device: "d", RequestID: "r"}, []device.Event{failed(device.OutcomeUnknown)}, ""},
		"what was not begun is not lost":                  {[]device.Command{write("r", "update"), offer("r", false)}, device.LoseRequest{Device: "d", RequestID: "r"}, nil, device.CodeNotStarted},
		"what ended is not lost":                          {[]device.Command{read("r"), answer("r")}, device.LoseRequest{Device: "d", RequestID: "r"}, nil, ""},
		"what waits can be taken back":                    {[]device.Command{write("r", "insert")}, device.CancelRequest{Device: "d", RequestID: "r"}, []device.Event{failed(device.Cancelled)}, ""},
		"what was sent can't be taken back":               {[]device.Command{write("r", "update"), offer("r", false)}, device.CancelRequest{Device: "d", RequestID: "r"}, nil, device.CodeOffered},
		"what ended can't be taken back":                  {[]device.Command{read("r"), answer("r")}, device.CancelRequest{Device: "d", RequestID: "r"}, nil, device.CodeEnded},
		"the same id again is a conflict":                 {[]device.Command{read("r")}, write("r", "insert"), nil, domain.CodeConflict},
		"also when it has ended":                          {[]device.Command{read("r"), answer("r")}, read("r"), nil, domain.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := after(t, known(), c.given...).Decide(c.when)
			var no *domain.Rejection
			if errors.As(err, &no) != (c.code != "") || no != nil && no.Code != c.code {
				t.Fatalf("refused with %v, want %q", err, c.code)
			}
			if diff := cmp.Diff(c.then, events); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestABadRequestIsRefused: a table or an action stands in the clear, where no text of the user's may get.
func TestABadRequestIsRefused(t *testing.T) {
	good := device.RequestMutation{Device: "d", RequestID: "r", Action: "insert", Table: "notes", Payload: device.Payload{Fields: []byte(`{}`)}}
	for name, c := range map[string]struct {
		change func(*device.RequestMutation)
		code   string
	}{
		"a dot":      {func(c *device.RequestMutation) { c.RequestID = "run.1.0.1" }, domain.CodeInvalid},
		"no id":      {func(c *device.RequestMutation) { c.RequestID = "" }, domain.CodeInvalid},
		"a read":     {func(c *device.RequestMutation) { c.Action = "select" }, domain.CodeInvalid},
		"a search":   {func(c *device.RequestMutation) { c.Action = "vector_search" }, domain.CodeInvalid},
		"a table":    {func(c *device.RequestMutation) { c.Table = "my secret" }, domain.CodeInvalid},
		"no table":   {func(c *device.RequestMutation) { c.Table = "" }, domain.CodeInvalid},
		"vectors":    {func(c *device.RequestMutation) { c.Action = "vector_upsert" }, domain.CodeInvalid},
		"impatience": {func(c *device.RequestMutation) { c.Wait = time.Millisecond }, domain.CodeInvalid},
		"patience":   {func(c *device.RequestMutation) { c.Wait = device.LongestWrite + 1 }, domain.CodeInvalid},
		"fields":     {func(c *device.RequestMutation) { c.Payload.Fields = []byte(`[]`) }, domain.CodeInvalid},
		"size":       {func(c *device.RequestMutation) { c.Payload.Fields = make([]byte, device.MaxFields+1) }, domain.CodeTooLarge},
		"a device":   {func(c *device.RequestMutation) { c.Device = "My Mac" }, domain.CodeInvalid},
	} {
		wrong := good
		c.change(&wrong)
		var no *domain.Rejection
		if _, err := known().Decide(wrong); !errors.As(err, &no) || no.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	var no *domain.Rejection
	if _, err := (device.State{}).Decide(good); !errors.As(err, &no) || no.Code != domain.CodeNotFound {
		t.Errorf("a device that never said hello: %v", err)
	}
}

// TestSoManyRequestsWait: a device's state stays small, whoever asks.
func TestSoManyRequestsWait(t *testing.T) {
	state := known()
	for i := range device.MaxOpen {
		state = after(t, state, read(fmt.Sprint("r", i)))
	}
	var no *domain.Rejection
	if _, err := state.Decide(read("more")); !errors.As(err, &no) || no.Code != device.CodeTooMany || no.Numbers["limit"] != device.MaxOpen {
		t.Fatalf("one more: %v", err)
	}
	for i := range device.MaxOpen {
		state = after(t, state, answer(fmt.Sprint("r", i)))
	}
	events, err := state.Decide(answer("r0")) // long forgotten: it may have existed
	if err != nil || len(events) != 1 {
		t.Fatalf("a forgotten one's answer: %v, %v", events, err)
	}
	if b, _ := json.Marshal(state); len(b) > 16<<10 {
		t.Fatalf("the state has %d bytes", len(b))
	}
}

// TestARequestEndsOnce: whatever is sent in whatever order, stored and loaded in between, each request has at most one outcome,
// is begun at most once, is not sent after it was begun or ended, and what comes later is late.
func TestARequestEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := known()
		ended, started := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			c := rapid.SampledFrom([]device.Command{
				read(id), write(id, "insert"), write(id, "vector_upsert"), offer(id, true), offer(id, false), answer(id),
				device.RecordAnswer{Device: "d", By: "d", RequestID: id, Failure: device.DeviceError},
				device.LoseRequest{Device: "d", RequestID: id}, device.CancelRequest{Device: "d", RequestID: id},
				device.FireTimer{Device: "d", Timer: "wait:" + id}, device.FireTimer{Device: "d", Timer: "offer:" + id},
				device.FireTimer{Device: "d", Timer: "nonsense"}, device.See{Device: "d", At: time.Unix(1_800_000_000, 0)},
				device.Introduce{Device: "d", Protocol: 2},
			}).Draw(t, "command")
			events, err := state.Decide(c)
			var no *domain.Rejection
			if err != nil && !errors.As(err, &no) {
				t.Fatal(err)
			}
			for _, e := range events {
				state = state.Evolve(e)
				switch e := e.(type) { //nolint:gochecksumtype // of those with a rule
				case device.RequestOffered:
					if ended[e.RequestID] || started[e.RequestID] {
						t.Fatalf("%+v after its end or its beginning", e)
					}
					started[e.RequestID] = e.Started
				case device.LateAnswerRecorded:
					if !ended[e.RequestID] {
						t.Fatalf("%+v before its end", e)
					}
				}
				if o, ok := e.(domain.Closes); ok {
					if ended[o.Closes()[0]] {
						t.Fatalf("%+v is a second outcome", e)
					}
					ended[o.Closes()[0]] = true
				}
				if o, ok := e.(domain.Opens); ok && (o.Opens()[0].Device != "d" || ended[o.Opens()[0].ID]) {
					t.Fatalf("%+v opens %+v", e, o.Opens())
				}
			}
			stored, err := json.Marshal(state)
			if err == nil {
				err = json.Unmarshal(stored, &state)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
