package tools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

// A late evening of Monday, 2026-11-30, in New York: in UTC it is the next day.
func evening(t *testing.T) tools.Context {
	t.Helper()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	return tools.Context{Now: time.Date(2026, 12, 1, 3, 30, 0, 0, time.UTC), Zone: zone}
}

const (
	dec1 = "1796101200000" // midnight of 2026-12-01 in New York
	task = `{"id":"t1","title":"Buy milk","status":"todo","priority":"high","dueDate":` + dec1 + `,"assignee":"[\"Ana\"]","createdAt":1}`
)

// one is a tool's test: what is called, what the device is sent, what it answers, and what the model reads.
type one struct {
	tool, args string
	action     string // and table
	fields     string // JSON
	then       string
	once       bool // it must not be repeated
	answer     string
	reads      string
	talk       tools.Talk
}

func cases() []one {
	return []one{
		{tool: "list_tasks", args: `{}`, action: "select tasks", fields: `{}`, answer: `{"rows":[` + task + `]}`,
			reads: "1 task:\n- Buy milk | id: t1 | status: todo | priority: high | due: 2026-12-01 | assignees: Ana"},
		{tool: "list_tasks", args: `{"project_id":"p","status":"todo","search":"milk","order_by":"due_date"}`, action: "select tasks",
			fields: `{"filters":{"projectId":"p","status":"todo","search":"milk","orderBy":"dueDate"}}`, answer: `{"rows":[]}`,
			reads: `Not found: there are no tasks with project_id "p" with status "todo" with search "milk".`},
		{tool: "list_tasks", args: `{"status":null,"search":""}`, action: "select tasks", fields: `{}`, answer: `{"rows":[]}`, reads: "Not found: there are no tasks."},
		{tool: "create_task", args: `{"title":" Buy milk "}`, action: "insert tasks", once: true,
			fields: `{"data":{"title":"Buy milk","status":"todo","priority":"medium","isAiSuggested":0,"isApproved":0}}`,
			answer: `{"row":` + task + `}`, reads: "Created the task:\n- Buy milk | id: t1"},
		{tool: "create_task", args: `{"title":"x","description":"d","status":"done","priority":"low","assignees":["Ana","Bo"],"due_date":"2026-12-01","project_id":"p","is_ai_suggested":true,"is_approved":"1"}`,
			action: "insert tasks", once: true, answer: `{"row":null}`,
			fields: `{"data":{"title":"x","description":"d","status":"done","priority":"low","assignee":"[\"Ana\",\"Bo\"]","dueDate":` + dec1 + `,"projectId":"p","isAiSuggested":1,"isApproved":1}}`,
			reads:  "create_task failed: the device returned no row"},
		{tool: "update_task", args: `{"task_id":"t1","status":"done","due_date":"none"}`, action: "update tasks",
			fields: `{"data":{"id":"t1","updates":{"status":"done","dueDate":null}}}`, answer: `{"row":{"id":"t1","title":"Buy milk","status":"done"}}`,
			reads: "Updated the task:\n- Buy milk | id: t1 | status: done"},
		{tool: "update_task", args: `{"task_id":"t9","title":"y"}`, action: "update tasks", fields: `{"data":{"id":"t9","updates":{"title":"y"}}}`,
			answer: `{"row":null}`, reads: "Not found: there is no task with the id t9. Nothing was changed."},
		{tool: "delete_task", args: `{"task_id":"t1"}`, action: "delete tasks", fields: `{"data":{"id":"t1"}}`, answer: `{"deleted":true}`, reads: "Deleted the task with the id t1."},
		{tool: "delete_task", args: `{"task_id":"t9"}`, action: "delete tasks", fields: `{"data":{"id":"t9"}}`, answer: `{"deleted":false}`, reads: "Not found: there is no task with the id t9. Nothing was deleted."},
		{tool: "list_tasks_due_today", args: ``, action: "select tasks", fields: `{"filters":{"dueDateFrom":1796014800000,"dueDateTo":1796101199999}}`,
			answer: `{"rows":[]}`, reads: "Not found: there are no tasks due today."},
		{tool: "list_task_comments", args: `{"task_id":"t1"}`, action: "select taskComments", fields: `{"filters":{"taskId":"t1"}}`,
			answer: `{"rows":[{"id":"c1","taskId":"t1","author":"Ana","content":"two\nlines"}]}`, reads: "1 comment with task_id \"t1\":\n- two lines | id: c1 | author: Ana | task: t1"},
		{tool: "add_task_comment", args: `{"task_id":"t1","content":"hi"}`, action: "insert taskComments", once: true,
			fields: `{"data":{"taskId":"t1","author":"assistant","content":"hi"}}`, answer: `{"row":{"id":"c1","taskId":"t1","author":"assistant","content":"hi"}}`,
			reads: "Created the comment:\n- hi | id: c1"},
		{tool: "delete_task_comment", args: `{"comment_id":"c1"}`, action: "delete taskComments", fields: `{"data":{"id":"c1"}}`, answer: `{"deleted":1}`, reads: "Deleted the comment with the id c1."},
		{tool: "list_projects", args: `{"client_id":"k"}`, action: "select projects", fields: `{"filters":{"clientId":"k","includeArchived":0}}`,
			answer: `{"rows":[{"id":"p","name":"Garden","status":"active"},{"id":"q","name":"House","clientId":"k"}]}`,
			reads:  "2 projects with client_id \"k\":\n- Garden | id: p | status: active\n- House | id: q | client: k"},
		{tool: "list_all_projects", args: `{}`, action: "select projects", fields: `{"filters":{"includeArchived":1}}`, answer: `{"rows":[]}`, reads: "Not found: there are no projects."},
		{tool: "get_project", args: `{"project_id":"p"}`, action: "get projects", fields: `{"data":{"id":"p"}}`,
			answer: `{"row":{"id":"p","name":"Garden","status":"active","aiSummary":"all\ngreen"}}`, reads: "Found the project:\n- Garden | id: p | status: active\nall\ngreen"},
		{tool: "get_project", args: `{"project_id":"p"}`, action: "get projects", fields: `{"data":{"id":"p"}}`, answer: `{"row":null}`, reads: "Not found: there is no project with the id p."},
		{tool: "create_project", args: `{"name":"Garden","client_id":"k"}`, action: "insert projects", once: true, fields: `{"data":{"name":"Garden","clientId":"k"}}`,
			answer: `{"row":{"id":"p","name":"Garden"}}`, reads: "Created the project:\n- Garden | id: p"},
		{tool: "update_project", args: `{"project_id":"p","status":"archived","ai_summary":"s"}`, action: "update projects",
			fields: `{"data":{"id":"p","updates":{"status":"archived","aiSummary":"s"}}}`, answer: `{"row":{"id":"p","name":"Garden","status":"archived"}}`,
			reads: "Updated the project:\n- Garden | id: p | status: archived"},
		{tool: "delete_project", args: `{"project_id":"p"}`, action: "delete projects", fields: `{"data":{"id":"p"}}`, answer: `{"deleted":"p"}`,
			reads: "Deleted the project with the id p.", talk: tools.Talk{Message: "Yes, delete it", Refused: []string{"p"}}},
		{tool: "list_checkpoints", args: `{"project_id":"p"}`, action: "select checkpoints", fields: `{"filters":{"projectId":"p"}}`,
			answer: `{"rows":[{"id":"k","projectId":"p","title":"Beta","date":` + dec1 + `,"isApproved":1}]}`,
			reads:  "1 checkpoint with project_id \"p\":\n- Beta | id: k | date: 2026-12-01 | project: p | approved: yes"},
		{tool: "create_checkpoint", args: `{"project_id":"p","title":"Beta","date":"2026-12-01T09:30"}`, action: "insert checkpoints", once: true,
			fields: `{"data":{"projectId":"p","title":"Beta","date":1796135400000,"isAiSuggested":0,"isApproved":0}}`,
			answer: `{"row":{"id":"k","projectId":"p","title":"Beta","date":1796135400000}}`, reads: "Created the checkpoint:\n- Beta | id: k | date: 2026-12-01 09:30"},
		{tool: "update_checkpoint", args: `{"checkpoint_id":"k","date":"2026-12-01T05:00:00Z","is_approved":1}`, action: "update checkpoints",
			fields: `{"data":{"id":"k","updates":{"date":` + dec1 + `,"isApproved":1}}}`, answer: `{"row":{"id":"k","title":"Beta"}}`, reads: "Updated the checkpoint:\n- Beta | id: k"},
		{tool: "delete_checkpoint", args: `{"checkpoint_id":"k"}`, action: "delete checkpoints", fields: `{"data":{"id":"k"}}`, answer: `{"deleted":true}`, reads: "Deleted the checkpoint with the id k."},
		{tool: "list_notes", args: `{}`, action: "select notes", fields: `{}`, answer: `{"rows":[{"id":"n","title":"","content":"# Head\n\ntext"}]}`,
			reads: "1 note:\n- (no title) | id: n | content: # Head text"},
		{tool: "get_note", args: `{"note_id":"n"}`, action: "get notes", fields: `{"data":{"id":"n"}}`, answer: `{"row":{"id":"n","title":"A","content":"# Head\n\ntext"}}`,
			reads: "Found the note:\n- A | id: n\n# Head\n\ntext"},
		{tool: "create_note", args: `{"title":"A","content":"b","project_id":"p"}`, action: "insert notes", once: true, then: "index_note",
			fields: `{"data":{"title":"A","content":"b","projectId":"p"}}`, answer: `{"row":{"id":"n","title":"A","content":"b"}}`, reads: "Created the note:\n- A | id: n | content: b"},
		{tool: "update_note", args: `{"note_id":"n","content":""}`, action: "update notes", then: "index_note", fields: `{"data":{"id":"n","updates":{"content":""}}}`,
			answer: `{"row":{"id":"n","title":"A"}}`, reads: "Updated the note:\n- A | id: n"},
		{tool: "update_note", args: `{"note_id":"n","title":"B"}`, action: "update notes", fields: `{"data":{"id":"n","updates":{"title":"B"}}}`,
			answer: `{"row":{"id":"n","title":"B"}}`, reads: "Updated the note:\n- B | id: n"},
		{tool: "delete_note", args: `{"note_id":"n"}`, action: "delete notes", fields: `{"data":{"id":"n"}}`, answer: `{"deleted":null}`, reads: "Not found: there is no note with the id n. Nothing was deleted."},
		{tool: "search_notes", args: `{"query":"green","limit":500}`, action: " ", then: "embed_query",
			answer: `{"results":[{"id":"n","content":"all\ngreen","score":0.91}]}`, reads: "1 note match, the nearest first:\n- all green | id: n | score: 0.91"},
	}
}

func TestEveryToolIsPlannedAndDescribed(t *testing.T) {
	c := evening(t)
	seen := map[string]bool{}
	for _, test := range cases() {
		seen[test.tool] = true
		t.Run(test.tool+" "+test.args, func(t *testing.T) {
			c := c
			c.Talk = test.talk
			plan, payload := agentOf(t, test.tool).Plan(c, test.tool, test.args)
			if plan.Tool != test.tool || plan.Action+" "+plan.Table != test.action && test.action != " " || plan.Then != test.then {
				t.Fatalf("plan %+v, answer %q", plan, payload.Answer)
			}
			if plan.Repeatable == test.once {
				t.Errorf("repeatable: %v", plan.Repeatable)
			}
			if test.fields != "" && !same(t, string(payload.Fields), test.fields) {
				t.Errorf("the device is sent %s, want %s", payload.Fields, test.fields)
			}
			for _, never := range []string{`"createdAt"`, `"updatedAt"`} {
				if strings.Contains(string(payload.Fields), never) {
					t.Errorf("%s was sent", never)
				}
			}
			call := &transcript.Call{
				Tool: test.tool, Checked: payload.Arguments, Done: true, Last: 1, Result: thread.Result{Device: []byte(test.answer)},
				Steps: map[int]transcript.Step{1: {Done: true, Result: thread.Result{Device: []byte(test.answer)}}},
			}
			if got := tools.Describe(call, c.Zone); !strings.HasPrefix(got, test.reads) {
				t.Errorf("the model reads %q, want %q", got, test.reads)
			}
		})
	}
	count := 0
	for _, a := range tools.Agents() {
		for _, tool := range a.Tools {
			count++
			if !seen[tool.Name] {
				t.Errorf("%s has no test", tool.Name)
			}
		}
	}
	if count != 24 {
		t.Errorf("there are %d tools, not 23 and search_notes", count)
	}
}

func agentOf(t *testing.T, tool string) tools.Agent {
	t.Helper()
	for _, a := range tools.Agents() {
		if _, ok := a.Tool(tool); ok {
			return a
		}
	}
	t.Fatalf("nobody has %s", tool)
	return tools.Agent{}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

func TestSchemasAreValidAndTakeWhatThePlanTakes(t *testing.T) {
	for _, a := range tools.Agents() {
		for _, tool := range a.Tools {
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(tool.Schema())))
			if err != nil {
				t.Fatal(err)
			}
			compiler := jsonschema.NewCompiler()
			if err := compiler.AddResource(tool.Name, document); err != nil {
				t.Fatal(err)
			}
			schema, err := compiler.Compile(tool.Name)
			if err != nil {
				t.Fatalf("%s: %v", tool.Name, err)
			}
			if err := schema.Validate(map[string]any{"nonsense": 1.0}); err == nil {
				t.Errorf("%s takes anything", tool.Name)
			}
			for _, test := range cases() {
				if test.tool != tool.Name || test.args == "" || strings.ContainsAny(test.args, "5") || strings.Contains(test.args, "null") || strings.Contains(test.args, "true") {
					continue // these are what the check forgives
				}
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.args))
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(value); err != nil {
					t.Errorf("%s refuses %s: %v", tool.Name, test.args, err)
				}
			}
		}
	}
}

func TestWrongArgumentsAreSaidAllAtOnce(t *testing.T) {
	c := evening(t)
	for args, want := range map[string][]string{
		`[1]`:                         {"not a JSON object"},
		`{"title":"x"} {"title":"y"}`: {"something follows"},
		`{"title":"\u0020"}`:          {"title is empty"},
		`{"title":{}}`:                {"title must be a text"},
		`{"priority":"urgent","colour":"red","due_date":"soonish","is_approved":7}`: {
			"title is missing", `priority must be one of high, medium, low, not "urgent"`, `"colour" is no argument`, "due_date must be a date", "is_approved must be 0 or 1",
		},
		strings.Repeat("x", tools.MaxArguments+1): {"at most 262144"},
	} {
		plan, payload := agentOf(t, "create_task").Plan(c, "create_task", args)
		if plan.Executor != thread.AtOnce {
			t.Errorf("%.80s was planned: %+v", args, plan)
		}
		for _, w := range want {
			if !strings.Contains(payload.Answer, w) {
				t.Errorf("%.80s: %q lacks %q", args, payload.Answer, w)
			}
		}
	}
	if _, payload := agentOf(t, "update_task").Plan(c, "update_task", `{"task_id":"t"}`); !strings.Contains(payload.Answer, "nothing to change") {
		t.Errorf("%q", payload.Answer)
	}
	if plan, payload := agentOf(t, "create_task").Plan(c, "\xff", `{}`); plan.Tool != tools.Unknown || !strings.Contains(payload.Answer, "create_task") {
		t.Errorf("%+v %q", plan, payload.Answer)
	}
}

// Cutting "today" in UTC was a trap: at 22:30 in New York it is tomorrow there.
func TestTodayIsTheUsersDay(t *testing.T) {
	for zone, want := range map[string]string{
		"America/New_York": "2026-11-30T00:00:00-05:00 24h0m0s", "Europe/Berlin": "2026-12-01T00:00:00+01:00 24h0m0s",
		"": "2026-12-01T00:00:00Z 24h0m0s", "Mars/Olympus": "2026-12-01T00:00:00Z 24h0m0s",
	} {
		if got := dueToday(t, time.Date(2026, 12, 1, 3, 30, 0, 0, time.UTC), zone); got != want {
			t.Errorf("%q: today is %s, want %s", zone, got, want)
		}
	}
	// Days on which the clocks change have 23 and 25 hours.
	if got := dueToday(t, time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC), "Europe/Berlin"); got != "2026-03-29T00:00:00+01:00 23h0m0s" {
		t.Errorf("the short day is %s", got)
	}
	if got := dueToday(t, time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC), "Europe/Berlin"); got != "2026-10-25T00:00:00+02:00 25h0m0s" {
		t.Errorf("the long day is %s", got)
	}
}

func dueToday(t *testing.T, now time.Time, zone string) string {
	t.Helper()
	c := tools.Context{Now: now, Zone: tools.Zone(zone)}
	_, payload := agentOf(t, "list_tasks_due_today").Plan(c, "list_tasks_due_today", "{}")
	var fields struct {
		Filters struct {
			From int64 `json:"dueDateFrom"`
			To   int64 `json:"dueDateTo"`
		} `json:"filters"`
	}
	if err := json.Unmarshal(payload.Fields, &fields); err != nil {
		t.Fatal(err)
	}
	from, to := time.UnixMilli(fields.Filters.From), time.UnixMilli(fields.Filters.To+1)
	return fmt.Sprint(from.In(c.Zone).Format(time.RFC3339), " ", to.Sub(from))
}

func TestAProjectIsDeletedOnlyOnTheUsersWord(t *testing.T) {
	asked := []string{"p"}
	names := map[string]string{"p": "Garden"}
	for _, test := range []struct {
		message string
		refused []string
		want    bool
	}{
		{"Delete the project Garden", nil, false},
		{"yes", nil, false},
		{"yes", asked, true},
		{"Yes, please!", asked, true},
		{"ok do it", asked, true},
		{"I confirm", asked, true},
		{"delete it", asked, true},
		{"yes", []string{"q"}, false},
		{"no", asked, false},
		{"Yes, but don't delete it", asked, false},
		{"ok, archive it instead", asked, false},
		{"ok, show me my projects", asked, false},
		{"delete the task Buy milk", asked, false},
		{"really delete it?", asked, false},
		{"I confirm that you delete the project Garden permanently", nil, true},
		{"I confirm that you delete the project Gard", nil, false},
		{"Yes, delete p", nil, true},
		{"I confirm, delete the project Office", nil, false},
		{"", asked, false},
	} {
		c := tools.Context{Talk: tools.Talk{Message: test.message, Refused: test.refused, Projects: names}}
		plan, payload := agentOf(t, "delete_project").Plan(c, "delete_project", `{"project_id":"p"}`)
		if got := plan.Executor == thread.OnDevice; got != test.want {
			t.Errorf("%q after %v: deleted %v", test.message, test.refused, got)
		}
		if !test.want && (!strings.Contains(payload.Answer, "archiv") || !strings.Contains(payload.Answer, "not deleted")) {
			t.Errorf("%q: the model reads %q", test.message, payload.Answer)
		}
	}
}

func TestFailuresAreSaidInWordsAndNeverCountedAsDone(t *testing.T) {
	for reason, want := range map[thread.FailureReason]string{
		thread.DeviceError: "the device says: disk full", thread.BadResult: "not of the right form", thread.ResultTooLarge: "2000000 bytes",
		thread.TimedOut: "look before you repeat", thread.DeviceOffline: "not online", thread.NoDevice: "no device", thread.OutcomeUnknown: "Look first",
		thread.ServerError: "on the server", thread.InvalidCall: "invalid",
	} {
		call := &transcript.Call{Tool: "create_task", Done: true, Last: 1, Failure: reason, Bytes: 2_000_000, Steps: map[int]transcript.Step{}}
		if reason == thread.DeviceError {
			call.Result.Device = []byte(`{"error":"disk full"}`)
		}
		got := tools.Describe(call, nil)
		if !strings.Contains(got, want) || strings.Contains(got, "Created") {
			t.Errorf("%s: %q", reason, got)
		}
	}
	slipped := []byte(`{"error":"no","row":{"id":"t1","title":"x"}}`)
	call := &transcript.Call{Tool: "create_task", Done: true, Last: 1, Result: thread.Result{Device: slipped}, Steps: map[int]transcript.Step{1: {Done: true, Result: thread.Result{Device: slipped}}}}
	if got := tools.Describe(call, nil); !strings.Contains(got, "failed") {
		t.Errorf("an error was read as %q", got)
	}
}

func TestALongListIsCutAndItsNumberIsNot(t *testing.T) {
	rows := make([]string, 5000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":"%d","title":"%s"}`, i, strings.Repeat("t", 50))
	}
	answer := []byte(`{"rows":[` + strings.Join(rows, ",") + `]}`)
	call := &transcript.Call{Tool: "list_tasks", Checked: []byte(`{}`), Done: true, Last: 1, Result: thread.Result{Device: answer}, Steps: map[int]transcript.Step{1: {Done: true, Result: thread.Result{Device: answer}}}}
	got := tools.Describe(call, nil)
	if !strings.HasPrefix(got, "5000 tasks:") || len(got) > 25_000 || !strings.Contains(got, "more, which are not shown") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}

func TestPromptsSayWhatTheModelMustKnow(t *testing.T) {
	c := evening(t)
	c.ProjectID = "p7"
	for _, a := range tools.Agents() {
		home := a.Prompt(c, thread.Home, nil)
		floating := a.Prompt(c, thread.Floating, &thread.Focus{Type: "task", ID: "t3"})
		if !strings.Contains(home, "Today is Monday, 2026-11-30") || !strings.Contains(home, tools.HomeMark) || !strings.Contains(home, "p7") {
			t.Errorf("%s: %s", a.Name, home)
		}
		if strings.Contains(floating, tools.HomeMark) || !strings.Contains(floating, "the task with the id t3") {
			t.Errorf("%s: %s", a.Name, floating)
		}
		if !strings.Contains(tools.RouterPrompt(nil), a.Name+": ") {
			t.Errorf("the router does not know %s", a.Name)
		}
	}
	if !slices.ContainsFunc(tools.Agents(), func(a tools.Agent) bool { return a.Name == tools.Fallback }) {
		t.Error("the fallback is nobody")
	}
}
