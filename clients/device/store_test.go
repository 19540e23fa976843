package device_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

func open(t *testing.T, path string) *device.Store {
	t.Helper()
	s, err := device.OpenStore(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, text string) device.Call {
	t.Helper()
	var c device.Call
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func do(t *testing.T, s *device.Store, text string) map[string]any {
	t.Helper()
	raw, err := s.Execute(t.Context(), call(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestActions(t *testing.T) {
	s := open(t, ":memory:")
	row := do(t, s, `{"action":"insert","table":"tasks","data":{"title":"Buy milk","priority":"high","assignee":["a"],"dueDate":1000}}`)["row"].(map[string]any)
	id := row["id"].(string)
	if row["status"] != "todo" || row["priority"] != "high" || row["assignee"] != `["a"]` || row["createdAt"] == nil {
		t.Fatalf("inserted %v", row)
	}
	do(t, s, `{"action":"insert","table":"tasks","data":{"title":"100% wool","priority":"low","dueDate":2000}}`)
	for filters, want := range map[string]int{
		`{}`: 2, `{"search":"MILK"}`: 1, `{"search":"%"}`: 1, `{"status":"done"}`: 0,
		`{"dueDateFrom":1000,"dueDateTo":1999}`: 1, `{"orderBy":"due_date desc"}`: 2, `{"orderBy":"-priority"}`: 2,
	} {
		rows, _ := do(t, s, `{"action":"select","table":"tasks","filters":`+filters+`}`)["rows"].([]any)
		if len(rows) != want {
			t.Errorf("filters %s: %d rows, want %d", filters, len(rows), want)
		}
	}
	first := do(t, s, `{"action":"select","table":"tasks","filters":{"orderBy":"dueDate desc"},"limit":1}`)["rows"].([]any)
	if len(first) != 1 || first[0].(map[string]any)["title"] != "100% wool" {
		t.Errorf("ordered %v", first)
	}
	updated := do(t, s, `{"action":"update","table":"tasks","data":{"id":"`+id+`","updates":{"status":"done","isApproved":true}}}`)["row"].(map[string]any)
	if updated["status"] != "done" || updated["isApproved"] != 1.0 {
		t.Errorf("updated %v", updated)
	}
	if got := do(t, s, `{"action":"get","table":"tasks","data":{"id":"nobody"}}`); got["row"] != nil || len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := do(t, s, `{"action":"delete","table":"tasks","data":{"id":"`+id+`"}}`); got["deleted"] != true {
		t.Errorf("deleted %v", got)
	}
	if got := do(t, s, `{"action":"delete","table":"tasks","data":{"id":"`+id+`"}}`); got["deleted"] != false {
		t.Errorf("deleted again %v", got)
	}
	do(t, s, `{"action":"insert","table":"projects","data":{"name":"Old","status":"archived"}}`)
	if rows := do(t, s, `{"action":"select","table":"projects","filters":{"includeArchived":0}}`)["rows"].([]any); len(rows) != 0 {
		t.Errorf("archived shown: %v", rows)
	}
}

func TestWrongCallsAreErrorsInWords(t *testing.T) {
	s := open(t, ":memory:")
	for text, want := range map[string]string{
		`{"action":"drop","table":"tasks"}`:                                                      "unknown action",
		`{"action":"select","table":"journal"}`:                                                  "unknown table",
		`{"action":"select","table":"tasks","filters":{"status":null}}`:                          "null",
		`{"action":"select","table":"tasks","filters":{"1=1; --":1}}`:                            "can't be filtered",
		`{"action":"select","table":"tasks","filters":{"orderBy":"title; DROP"}}`:                "be ordered",
		`{"action":"insert","table":"tasks","data":{"title":"x","id":"mine"}}`:                   "made by the device",
		`{"action":"insert","table":"tasks","data":{"title":"x","colour":"red"}}`:                "no column",
		`{"action":"insert","table":"tasks","data":{}}`:                                          "title",
		`{"action":"insert","table":"tasks","data":{"title":"x","priority":"urgent"}}`:           "priority",
		`{"action":"insert","table":"checkpoints","data":{"title":"x"}}`:                         "projectId",
		`{"action":"update","table":"tasks","data":{"id":"nobody","updates":{"title":"y"}}}`:     "no row",
		`{"action":"update","table":"tasks","data":{"id":"nobody"}}`:                             "updates",
		`{"action":"get","table":"tasks"}`:                                                       "data",
		`{"action":"vector_upsert","data":{"id":"n"}}`:                                           "vector",
		`{"action":"vector_search"}`:                                                             "vector",
		`{"action":"insert","table":"tasks","data":[]}`:                                          "object",
		`{"action":"insert","table":"tasks","data":{"title":"x","assignee":"not a JSON array"}}`: "assignee",
	} {
		if got, _ := do(t, s, text)["error"].(string); !strings.Contains(got, want) {
			t.Errorf("%s: error %q, want %q in it", text, got, want)
		}
	}
	for _, table := range []string{"tasks", "checkpoints"} {
		if rows, err := s.Rows(t.Context(), table); err != nil || len(rows) != 0 {
			t.Errorf("%s: left %v, %v", table, rows, err)
		}
	}
}

func TestVectorsAreFoundByCosine(t *testing.T) {
	s := open(t, ":memory:")
	do(t, s, `{"action":"vector_upsert","vector":[1,0],"data":{"id":"a","content":"right"}}`)
	do(t, s, `{"action":"vector_upsert","vector":[0,1],"data":{"id":"b","content":"up","projectId":"p"}}`)
	do(t, s, `{"action":"vector_upsert","vector":[0,9],"data":{"id":"b","content":"further up","projectId":"p"}}`)
	do(t, s, `{"action":"vector_upsert","vector":[1,1,1],"data":{"id":"c","content":"other space"}}`)
	results := do(t, s, `{"action":"vector_search","vector":[1,3],"limit":5}`)["results"].([]any)
	if len(results) != 2 || results[0].(map[string]any)["content"] != "further up" {
		t.Fatalf("found %v", results)
	}
	if results := do(t, s, `{"action":"vector_search","vector":[1,3],"limit":1}`)["results"].([]any); len(results) != 1 {
		t.Fatalf("limit: %v", results)
	}
}

func TestACallIsDoneOnceAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "de vice?.db")
	now := time.Now()
	insert := call(t, `{"id":"r.1.0.1","action":"insert","table":"tasks","data":{"title":"once"}}`)
	wrong := call(t, `{"id":"r.1.1.1","action":"insert","table":"tasks","data":{}}`)
	var first, refused device.Answer
	for i := range 3 {
		s, err := device.OpenStore(t.Context(), path, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		answer, repeated, err := s.ExecuteOnce(t.Context(), insert)
		if err != nil || repeated != (i > 0) {
			t.Fatalf("%d: repeated %v, %v", i, repeated, err)
		}
		no, _, err := s.ExecuteOnce(t.Context(), wrong)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first, refused = answer, no
		} else if string(answer) != string(first) || string(no) != string(refused) {
			t.Fatalf("another answer: %s, %s", answer, no)
		}
		rows, err := s.Rows(t.Context(), "tasks")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := device.OpenStore(t.Context(), path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Acknowledge(t.Context(), insert.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Unacknowledged(t.Context()); err != nil || len(left) != 1 || left[0].CallID != wrong.ID {
		t.Fatalf("left %v, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(8 * 24 * time.Hour)
	s, err = device.OpenStore(t.Context(), path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if n, err := s.JournalLen(context.Background()); err != nil || n != 1 {
		t.Fatalf("after a week: %d entries, %v", n, err)
	}
}

func TestTheFileIsForItsUserAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device.db")
	open(t, path)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has the mode %v", file, mode)
		}
	}
}
