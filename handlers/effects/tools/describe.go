package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

// What a description holds at most.
const (
	maxRows = 200
	maxText = 24 << 10
)

// Describe is the text that the model reads as the result of a call: made of the device's real rows, or
// saying in words what went wrong. Days are the user's.
func Describe(call *transcript.Call, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	tool, known := ToolNamed(call.Tool)
	switch {
	case !call.Done:
		return "There is no result yet."
	case call.Failure != "":
		return failure(call, tool)
	case !known:
		return orElse(call.Result.Text, "Done.")
	case call.Result.Text != "" && len(call.Answers()) == 0:
		return call.Result.Text
	}
	answer, ok := content(call, tool)
	if !ok {
		return tool.Name + " failed: the device's answer can't be read. Nothing is known of what it did: look before you repeat it."
	}
	if answer.Error != "" { // never count an error as something that was done
		return fmt.Sprintf("%s failed: the device says: %s", tool.Name, clip(answer.Error, 2000))
	}
	text := tool.describe(answer, call, zone)
	if call.NotIndexed {
		text += "\nThe note is stored, but it could not be indexed for the search yet; that is tried again later."
	}
	return text
}

// answer is a device's answer as the protocol has it.
type answer struct {
	Row     json.RawMessage   `json:"row"`
	Rows    []json.RawMessage `json:"rows"`
	Results []json.RawMessage `json:"results"`
	Deleted json.RawMessage   `json:"deleted"`
	OK      json.RawMessage   `json:"ok"`
	Error   string            `json:"error"`
}

// content is the answer that says what the call did: of a note it is that of the first step, not that of the index.
func content(call *transcript.Call, tool Tool) (answer, bool) {
	answers := call.Answers()
	if len(answers) == 0 {
		answers = []json.RawMessage{call.Result.Device}
	}
	chosen := answers[len(answers)-1]
	if tool.Then == IndexNote {
		chosen = answers[0]
	}
	var a answer
	if err := json.Unmarshal(chosen, &a); err != nil {
		return answer{}, false
	}
	return a, true
}

func (t Tool) describe(a answer, call *transcript.Call, zone *time.Location) string {
	noun := nouns(t.Table)
	switch t.Action {
	case "select":
		return list(a.Rows, t.Table, zone, t.filterWords(call))
	case "vector_search":
		return found(a.Results)
	case "get":
		row, ok := rowOf(a.Row)
		if !ok {
			return fmt.Sprintf("Not found: there is no %s with the id %s.", noun.one, target(call))
		}
		return "Found the " + noun.one + ":\n" + row.whole(t.Table, zone)
	case "insert":
		row, ok := rowOf(a.Row)
		if !ok {
			return fmt.Sprintf("%s failed: the device returned no row, so nothing is known to be created. Look before you repeat it.", t.Name)
		}
		return "Created the " + noun.one + ":\n" + row.line(t.Table, zone)
	case "update":
		row, ok := rowOf(a.Row)
		if !ok {
			return fmt.Sprintf("Not found: there is no %s with the id %s. Nothing was changed.", noun.one, target(call))
		}
		return "Updated the " + noun.one + ":\n" + row.line(t.Table, zone)
	case "delete":
		if !truthy(a.Deleted) {
			return fmt.Sprintf("Not found: there is no %s with the id %s. Nothing was deleted.", noun.one, target(call))
		}
		return fmt.Sprintf("Deleted the %s with the id %s.", noun.one, target(call))
	}
	return "Done."
}

func list(rows []json.RawMessage, table string, zone *time.Location, about string) string {
	noun := nouns(table)
	if len(rows) == 0 {
		return fmt.Sprintf("Not found: there are no %s%s.", noun.many, about)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s:", noun.count(len(rows)), about)
	for i, raw := range rows {
		row, _ := rowOf(raw)
		line := row.line(table, zone)
		if i == maxRows || b.Len()+len(line) > maxText {
			fmt.Fprintf(&b, "\n… and %d more, which are not shown: ask for less with a filter or a search.", len(rows)-i)
			break
		}
		b.WriteString("\n" + line)
	}
	return b.String()
}

func found(results []json.RawMessage) string {
	if len(results) == 0 {
		return "Not found: no note matches."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s match, the nearest first:", nouns("notes").count(len(results)))
	for i, raw := range results {
		row, _ := rowOf(raw)
		line := fmt.Sprintf("- %s | id: %s", flat(row.text("content"), 400), row.text("id"))
		if score, ok := row.number("score"); ok {
			line += fmt.Sprintf(" | score: %.2f", score)
		}
		if b.Len()+len(line) > maxText {
			fmt.Fprintf(&b, "\n… and %d more.", len(results)-i)
			break
		}
		b.WriteString("\n" + line)
	}
	return b.String()
}

// target is the id that the call was about.
func target(call *transcript.Call) string {
	var args map[string]any
	if json.Unmarshal(call.Checked, &args) != nil {
		return "?"
	}
	for _, name := range []string{"task_id", "comment_id", "checkpoint_id", "note_id", "project_id"} {
		if id, ok := args[name].(string); ok {
			return id
		}
	}
	return "?"
}

// filterWords say in words which rows a list was asked for.
func (t Tool) filterWords(call *transcript.Call) string {
	if t.Name == "list_tasks_due_today" {
		return " due today"
	}
	var args map[string]any
	if json.Unmarshal(call.Checked, &args) != nil {
		return ""
	}
	words := ""
	for _, p := range t.Params {
		value, ok := args[p.Name].(string)
		if !ok || value == "" || p.Name == "order_by" {
			continue
		}
		words += fmt.Sprintf(" with %s %q", p.Name, flat(value, 80))
	}
	return words
}

func failure(call *transcript.Call, tool Tool) string {
	name := orElse(tool.Name, orElse(call.Named, "the tool"))
	said := call.Result.Text
	switch call.Failure {
	case thread.InvalidCall:
		return orElse(said, name+" was not called: the call is invalid.")
	case thread.DeviceError:
		var a answer
		if json.Unmarshal(call.Result.Device, &a) == nil && a.Error != "" {
			said = a.Error
		}
		return fmt.Sprintf("%s failed: the device says: %s", name, orElse(clip(said, 2000), "(no reason given)"))
	case thread.BadResult:
		return name + " failed: the device's answer was not of the right form. Look before you repeat it."
	case thread.ResultTooLarge:
		return fmt.Sprintf("%s failed: the result has %d bytes and at most %d are taken. Ask for less: use a filter, a search or a smaller limit.", name, call.Bytes, 1<<20)
	case thread.TimedOut:
		if tool.Action == "select" || tool.Action == "get" || tool.Action == "vector_search" {
			return name + " failed: the device did not answer in time."
		}
		return name + " got no answer from the device in time. It may have been done all the same: look before you repeat it."
	case thread.DeviceOffline:
		return name + " was not done: the user's device was not online for too long."
	case thread.NoDevice:
		return name + " was not done: the user has no device connected, and the data is on the device. Ask them to open the app."
	case thread.OutcomeUnknown:
		return orElse(said, Unsure(name))
	default:
		return orElse(said, name+" failed on the server.")
	}
}

// Unsure are the words for a step that began and whose end nobody knows.
func Unsure(tool string) string {
	return "It is not known whether " + tool + " was done: it began, and then the connection was lost. " +
		"Look first (list or read the rows) and repeat it only if it was not done."
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
