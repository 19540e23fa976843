package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// say is an answer in words, in the form that the prompt asks for.
func (s *scene) say(text string, objects ...any) string {
	text = strings.TrimSpace(text)
	if !s.home {
		return text
	}
	parts := []string{object(map[string]any{"type": "text", "content": text})}
	for _, o := range objects {
		parts = append(parts, object(o))
	}
	return strings.Join(parts, "\n")
}

// object is JSON with "type" first, which the formatter needs to stream a text, and without escapes for HTML.
func object(v any) string {
	if m, ok := v.(map[string]any); ok && m["type"] == "text" {
		return `{"type":"text","content":` + object(m["content"]) + `}`
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // texts, numbers, lists and maps of them
		return "{}"
	}
	return strings.TrimSpace(b.String())
}

func reference(entity string, found []item) any {
	ref := struct {
		Type   string   `json:"type"`
		Entity string   `json:"entity"`
		IDs    []string `json:"ids,omitempty"`
	}{"entity_ref", entity, nil}
	for _, i := range found {
		ref.IDs = append(ref.IDs, i.fields["id"])
	}
	return ref
}

// outcome says what the calls of this request did, from their results.
func (s *scene) outcome(entity string) string {
	var lines []string
	var rows []item
	for _, done := range s.done {
		switch {
		case strings.HasPrefix(done.tool, "list_"), strings.HasPrefix(done.tool, "get_"):
			continue
		case strings.HasPrefix(done.result, "Created"), strings.HasPrefix(done.result, "Updated"):
			rows = append(rows, done.items...)
			lines = append(lines, made(done))
		case strings.HasPrefix(done.result, "Deleted"):
			lines = append(lines, done.result)
		case done.tool == "delete_project":
			lines = append(lines, "I have not deleted the project: that can't be undone, and you have not confirmed it. "+
				"I suggest archiving it instead. If you really want it deleted, say yes.")
		default:
			lines = append(lines, "That did not work: "+done.result)
		}
	}
	text := strings.Join(lines, "\n")
	if len(rows) == 0 || entity == "comment" {
		return s.say(text)
	}
	return s.say(text, reference(entity, rows))
}

// made is a sentence about a row that was created or updated.
func made(done step) string {
	verb, _, _ := strings.Cut(done.result, " ")
	_, entity, _ := strings.Cut(done.tool, "_")
	entity = strings.TrimPrefix(entity, "task_")
	if len(done.items) == 0 {
		return verb + " the " + entity + "."
	}
	text := fmt.Sprintf("%s the %s %q%s.", verb, entity, done.items[0].name, done.items[0].details())
	if strings.Contains(done.result, "could not be indexed") {
		text += " It could not be indexed for the search yet; that is tried again later."
	}
	return text
}

func (i item) details() string {
	var parts []string
	if p := i.fields["priority"]; p != "" {
		parts = append(parts, p+" priority")
	}
	if st := i.fields["status"]; st != "" {
		parts = append(parts, strings.ReplaceAll(st, "_", " "))
	}
	for _, label := range []string{"due", "date"} {
		if d := i.fields[label]; d != "" {
			parts = append(parts, strings.TrimPrefix(label+" "+d, "date "))
		}
	}
	if a := i.fields["assignees"]; a != "" {
		parts = append(parts, "assigned to "+a)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// listed answers a wish to see or count rows, from the rows.
func (s *scene) listed(w wish, done step) string {
	noun := w.entity
	if !strings.HasPrefix(done.result, "Not found") && len(done.items) == 0 {
		return s.say("That did not work: " + done.result)
	}
	found, filtered := done.items, false
	keep := func(label, value string) {
		if value == "" || done.tool == "list_tasks_due_today" && label == "due" {
			return
		}
		filtered = true
		found = slices.DeleteFunc(slices.Clone(found), func(i item) bool { return !strings.HasPrefix(i.fields[label], value) })
	}
	if w.entity == "task" {
		keep("priority", w.priority)
		keep("due", w.due)
	}
	count := len(found)
	if n, ok := leading(done.result); ok && !filtered {
		count = n // a long list is cut, its number is not
	}
	what := describe(w, noun, count)
	if count == 0 {
		return s.say("You have no " + strings.TrimPrefix(what, "0 ") + ".")
	}
	names := make([]string, 0, len(found))
	for _, i := range found {
		names = append(names, i.name)
	}
	text := fmt.Sprintf("You have %s: %s.", what, strings.Join(names, "; "))
	if w.verb == "search" {
		text = fmt.Sprintf("I found %s: %s.", what, strings.Join(names, "; "))
	}
	switch {
	case !s.home, w.entity == "comment", done.tool == "search_notes":
		return s.say(text)
	case w.show == "table":
		return s.say(fmt.Sprintf("You have %s.", what), table(found))
	case w.show == "chart":
		return s.say(fmt.Sprintf("You have %s.", what), chart(found))
	case w.show == "timeline" || w.entity == "checkpoint":
		return s.say(text, timeline(found))
	case filtered:
		return s.say(text, reference(w.entity, found))
	}
	return s.say(text, reference(w.entity, nil))
}

// leading is the number with which a result begins.
func leading(result string) (int, bool) {
	var n int
	_, err := fmt.Sscanf(result, "%d ", &n)
	return n, err == nil
}

func describe(w wish, noun string, count int) string {
	if w.status != "" && w.status != "archived" {
		noun = strings.ReplaceAll(w.status, "_", " ") + " " + noun
	}
	if w.priority != "" {
		noun = w.priority + " priority " + noun
	}
	if count != 1 {
		noun += "s"
	}
	if w.due != "" {
		noun += " due " + w.due
	}
	if w.text != "" {
		noun += fmt.Sprintf(" about %q", w.text)
	}
	return fmt.Sprintf("%d %s", count, noun)
}

func (s *scene) shown(w wish, done step) string {
	if len(done.items) == 0 {
		return s.say(done.result)
	}
	_, body, _ := strings.Cut(done.result, "\n")
	_, body, _ = strings.Cut(body, "\n")
	text := fmt.Sprintf("%s%s", done.items[0].name, done.items[0].details())
	if body != "" {
		text += "\n\n" + body
	}
	return s.say(text, reference(w.entity, nil))
}

func table(found []item) any {
	headers := []string{"name"}
	for _, label := range []string{"status", "priority", "due", "date", "project"} {
		if slices.ContainsFunc(found, func(i item) bool { return i.fields[label] != "" }) {
			headers = append(headers, label)
		}
	}
	rows := make([][]string, len(found))
	for n, i := range found {
		rows[n] = []string{i.name}
		for _, label := range headers[1:] {
			rows[n] = append(rows[n], i.fields[label])
		}
	}
	return struct {
		Type    string     `json:"type"`
		Headers []string   `json:"headers"`
		Rows    [][]string `json:"rows"`
	}{"table", headers, rows}
}

func chart(found []item) any {
	type bar struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	var bars []bar
	for _, i := range found {
		name := strings.ReplaceAll(i.fields["status"], "_", " ")
		at := slices.IndexFunc(bars, func(b bar) bool { return b.Name == name })
		if at < 0 {
			bars, at = append(bars, bar{Name: name}), len(bars)
		}
		bars[at].Count++
	}
	return struct {
		Type   string                       `json:"type"`
		Chart  string                       `json:"chartType"`
		Title  string                       `json:"title"`
		Data   []bar                        `json:"data"`
		Config map[string]map[string]string `json:"config"`
	}{"chart", "bar", "By status", bars, map[string]map[string]string{"count": {"label": "Count"}}}
}

func timeline(found []item) any {
	type point struct {
		ID    string `json:"id"`
		Title string `json:"title"`
		Date  string `json:"date"`
	}
	points := make([]point, len(found))
	for n, i := range found {
		points[n] = point{i.fields["id"], i.name, i.fields["date"] + i.fields["due"]}
	}
	slices.SortStableFunc(points, func(a, b point) int { return strings.Compare(a.Date, b.Date) })
	return struct {
		Type   string  `json:"type"`
		Points []point `json:"checkpoints"`
	}{"timeline", points}
}

func rowArgument(arguments, name string) string {
	var args map[string]any
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return ""
	}
	id, _ := args[name].(string)
	return id
}
