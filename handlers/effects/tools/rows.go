package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

type noun struct{ one, many string }

func nouns(table string) noun {
	switch table {
	case "tasks":
		return noun{"task", "tasks"}
	case "projects":
		return noun{"project", "projects"}
	case "checkpoints":
		return noun{"checkpoint", "checkpoints"}
	case "notes":
		return noun{"note", "notes"}
	case "taskComments":
		return noun{"comment", "comments"}
	}
	return noun{"row", "rows"}
}

func (n noun) count(k int) string {
	if k == 1 {
		return "1 " + n.one
	}
	return fmt.Sprintf("%d %s", k, n.many)
}

// row is a row of the device.
type row map[string]any

func rowOf(raw json.RawMessage) (row, bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var r row
	if err := decoder.Decode(&r); err != nil || r == nil {
		return nil, false
	}
	return r, true
}

func (r row) text(column string) string {
	switch v := r[column].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func (r row) number(column string) (float64, bool) {
	n, ok := r[column].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// day is a column of milliseconds as the user's day, with the time where it is not midnight.
func (r row) day(column string, zone *time.Location) string {
	ms, ok := r.number(column)
	if !ok || ms == 0 {
		return ""
	}
	at := time.UnixMilli(int64(ms)).In(zone)
	if at.Hour() == 0 && at.Minute() == 0 {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02 15:04")
}

// line is the row in one line: its name, its id, and the fields that matter.
func (r row) line(table string, zone *time.Location) string {
	head, rest := "", []string(nil)
	field := func(label, value string) {
		if value != "" {
			rest = append(rest, label+": "+value)
		}
	}
	field("id", r.text("id"))
	switch table {
	case "tasks":
		head = r.text("title")
		field("status", r.text("status"))
		field("priority", r.text("priority"))
		field("due", r.day("dueDate", zone))
		field("assignees", r.assignees())
		field("project", r.text("projectId"))
		field("description", flat(r.text("description"), 120))
	case "projects":
		head = r.text("name")
		field("status", r.text("status"))
		field("client", r.text("clientId"))
		field("summary", flat(r.text("aiSummary"), 160))
	case "checkpoints":
		head = r.text("title")
		field("date", r.day("date", zone))
		field("project", r.text("projectId"))
		if approved, ok := r.number("isApproved"); ok {
			field("approved", map[bool]string{true: "yes", false: "no"}[approved != 0])
		}
	case "notes":
		head = r.text("title")
		field("project", r.text("projectId"))
		field("content", flat(r.text("content"), 160))
	case "taskComments":
		head = r.text("content")
		field("author", r.text("author"))
		field("task", r.text("taskId"))
	}
	return strings.Join(append([]string{"- " + orElse(flat(head, 300), "(no title)")}, rest...), " | ")
}

// whole is the row with its long text.
func (r row) whole(table string, zone *time.Location) string {
	switch table {
	case "notes":
		content := r.text("content")
		delete(r, "content")
		return r.line(table, zone) + "\n" + clip(content, maxText)
	case "projects":
		summary := r.text("aiSummary")
		delete(r, "aiSummary")
		if summary != "" {
			summary = "\n" + clip(summary, maxText)
		}
		return r.line(table, zone) + summary
	}
	return r.line(table, zone)
}

// assignees is the column's JSON array as words.
func (r row) assignees() string {
	text := r.text("assignee")
	var list []string
	if json.Unmarshal([]byte(text), &list) == nil {
		text = strings.Join(list, ", ")
	}
	return flat(text, 120)
}

// truthy reports whether an answer like "deleted" says yes: true, a number over zero, an id.
func truthy(raw json.RawMessage) bool {
	switch s := strings.TrimSpace(string(raw)); s {
	case "", "null", "false", "0", `""`, "[]":
		return false
	}
	return true
}

// flat is text in one line, cut to a length.
func flat(text string, limit int) string {
	return clip(strings.Join(strings.Fields(text), " "), limit)
}
