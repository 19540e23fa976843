package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cloudwego/eino/schema"
)

// next is what the model does now: an answer, or calls.
func (s *scene) next() (string, []schema.ToolCall) {
	w := s.understand()
	if len(s.tools) == 0 && len(s.done) == 0 && w.acts() {
		return s.say("I can't do anything with your data now: I was given no tools."), nil
	}
	switch w.verb {
	case "create":
		return s.create(w)
	case "list", "count":
		return s.list(w)
	case "search":
		return s.search(w)
	case "read", "update", "delete":
		return s.change(w)
	case "yes":
		return s.yes()
	case "hello":
		return s.say("Hello! I can look after your tasks, projects, checkpoints and notes. What shall I do?"), nil
	case "thanks":
		return s.say("You're welcome."), nil
	}
	return s.say(helpText), nil
}

const helpText = `I am the built-in offline model: rules, not a language model. I understand requests such as ` +
	`"Create a task called Buy milk, high priority, due tomorrow", "How many todo tasks do I have?", "Which tasks are due today?", ` +
	`"Mark Buy milk as done", "Create a project called Garden", "Create a note called Ideas: …" and "Search my notes for ideas".`

func (w wish) acts() bool {
	return slices.Contains([]string{"create", "list", "count", "search", "read", "update", "delete"}, w.verb)
}

// use calls a tool, or says why it can't.
func (s *scene) use(tool string, args map[string]any) (string, []schema.ToolCall) {
	switch {
	case len(s.tools) == 0:
		return s.say("I could not finish this in the steps I have. " + s.sofar()), nil
	case !s.tools[tool]:
		return s.say(fmt.Sprintf("I have no tool for that here (it would be %s).", tool)), nil
	}
	return "", []schema.ToolCall{s.call(tool, args)}
}

func (s *scene) sofar() string {
	if len(s.done) == 0 {
		return ""
	}
	return s.done[len(s.done)-1].result
}

func (s *scene) create(w wish) (string, []schema.ToolCall) {
	if w.entity == "comment" {
		return s.comment(w)
	}
	if len(s.done) > 0 {
		return s.outcome(w.entity), nil
	}
	if len(w.names) == 0 {
		return s.say(fmt.Sprintf("What shall the %s be called?", w.entity)), nil
	}
	if w.project == "" && w.entity != "project" {
		w.project = s.projectID
	}
	if w.entity == "checkpoint" {
		switch {
		case w.project == "" && s.focus == "project":
			w.project = s.focusID
		case w.due == "":
			return s.say("On which day is that checkpoint?"), nil
		}
		if w.project == "" {
			return s.say("Which project does that checkpoint belong to? Tell me its id."), nil
		}
	}
	var calls []schema.ToolCall
	for _, name := range w.names {
		text, more := s.use("create_"+w.entity, w.fields(name))
		if more == nil {
			return text, nil
		}
		calls = append(calls, more...)
	}
	return "", calls
}

// fields are the arguments to create a row of that name.
func (w wish) fields(name string) map[string]any {
	args := map[string]any{}
	put := func(key, value string) {
		if value != "" {
			args[key] = value
		}
	}
	put(map[bool]string{true: "name", false: "title"}[w.entity == "project"], name)
	if w.entity != "project" {
		put("project_id", w.project)
	}
	switch w.entity {
	case "task":
		put("priority", w.priority)
		put("due_date", w.due)
		put("description", w.about)
		if len(w.people) > 0 {
			args["assignees"] = w.people
		}
	case "checkpoint":
		put("date", w.due)
	case "note":
		put("content", w.text)
	}
	return args
}

func (s *scene) comment(w wish) (string, []schema.ToolCall) {
	if _, ok := s.last("add_task_comment"); ok {
		return s.outcome("comment"), nil
	}
	if w.text == "" {
		return s.say("What shall the comment say?"), nil
	}
	id, text, calls := s.target("task", w)
	if id == "" {
		return text, calls
	}
	return s.use("add_task_comment", map[string]any{"task_id": id, "content": w.text})
}

func (s *scene) list(w wish) (string, []schema.ToolCall) {
	tool, args := "list_"+w.entity+"s", map[string]any{}
	switch w.entity {
	case "comment":
		tool = "list_task_comments"
		if _, ok := s.last(tool); !ok {
			id, text, calls := s.target("task", w)
			if id == "" {
				return text, calls
			}
			args["task_id"] = id
		}
	case "task":
		if w.due == s.today.Format("2006-01-02") && w.due != "" && w.status == "" {
			tool = "list_tasks_due_today"
			break
		}
		if w.status != "" {
			args["status"] = w.status
		}
		if w.text != "" {
			args["search"] = w.text
		}
	case "project":
		if w.status == "archived" {
			tool = "list_all_projects"
		}
	}
	if w.project == "" && s.focus == "project" && w.entity != "project" {
		w.project = s.focusID
	}
	if w.project != "" && tool != "list_tasks_due_today" && w.entity != "comment" && w.entity != "project" {
		args["project_id"] = w.project
	}
	if done, ok := s.last(tool); ok {
		return s.listed(w, done), nil
	}
	return s.use(tool, args)
}

func (s *scene) search(w wish) (string, []schema.ToolCall) {
	tool, args := "list_tasks", map[string]any{"search": w.text}
	switch w.entity {
	case "note":
		tool, args = "search_notes", map[string]any{"query": w.text}
	case "project", "checkpoint":
		w.verb = "list"
		return s.list(w)
	}
	if w.text == "" {
		return s.say("What shall I look for?"), nil
	}
	if done, ok := s.last(tool); ok {
		return s.listed(w, done), nil
	}
	return s.use(tool, args)
}

// change finds the row and then reads, changes or deletes it.
func (s *scene) change(w wish) (string, []schema.ToolCall) {
	if w.entity == "comment" && w.verb == "delete" {
		return s.deleteComment(w)
	}
	tool := map[string]string{"read": "get", "update": "update", "delete": "delete"}[w.verb] + "_" + w.entity
	if done, ok := s.last(tool); ok {
		if w.verb == "read" {
			return s.shown(w, done), nil
		}
		return s.outcome(w.entity), nil
	}
	if w.verb == "read" && (w.entity == "task" || w.entity == "checkpoint") {
		w.verb, w.text = "list", w.target
		return s.list(w)
	}
	args := map[string]any{}
	if w.verb == "update" {
		if args = w.updates(); len(args) == 0 {
			return s.say(fmt.Sprintf("What shall I change about that %s?", w.entity)), nil
		}
	}
	id, text, calls := s.target(w.entity, w)
	if id == "" {
		return text, calls
	}
	args[w.entity+"_id"] = id
	return s.use(tool, args)
}

func (w wish) updates() map[string]any {
	args := map[string]any{}
	put := func(key, value string) {
		if value != "" {
			args[key] = value
		}
	}
	name := ""
	if len(w.names) > 0 {
		name = w.names[0]
	}
	switch w.entity {
	case "task":
		put("title", name)
		put("priority", w.priority)
		put("due_date", w.due)
		put("status", w.status)
		if len(w.people) > 0 {
			args["assignees"] = w.people
		}
	case "project":
		put("name", name)
		if w.status == "archived" || w.status == "active" {
			put("status", w.status)
		}
	case "checkpoint":
		put("title", name)
		put("date", w.due)
		if w.status == "approved" {
			args["is_approved"] = 1
		}
	case "note":
		put("title", name)
		put("content", w.text)
	}
	return args
}

func (s *scene) deleteComment(w wish) (string, []schema.ToolCall) {
	if _, ok := s.last("delete_task_comment"); ok {
		return s.outcome("comment"), nil
	}
	if w.id != "" {
		return s.use("delete_task_comment", map[string]any{"comment_id": w.id})
	}
	comments, ok := s.last("list_task_comments")
	if !ok {
		id, text, calls := s.target("task", w)
		if id == "" {
			return text, calls
		}
		return s.use("list_task_comments", map[string]any{"task_id": id})
	}
	id, why := choose(comments.items, w.text, "comment")
	if id == "" {
		return s.say(why), nil
	}
	return s.use("delete_task_comment", map[string]any{"comment_id": id})
}

// target is the id of the row the wish is about: said, or in focus, or found by its name in a list that
// is asked for first. An empty id comes with what to do instead.
func (s *scene) target(entity string, w wish) (id, text string, calls []schema.ToolCall) {
	if w.id != "" && entity == w.entity {
		return w.id, "", nil
	}
	if w.id != "" && entity == "task" {
		return w.id, "", nil
	}
	if w.project != "" && entity == "project" {
		return w.project, "", nil
	}
	if s.focus == entity && s.focusID != "" && (w.target == "" || pronoun(w.target)) {
		return s.focusID, "", nil
	}
	tool, args := "list_"+entity+"s", map[string]any{}
	if entity == "project" {
		tool = "list_all_projects"
	}
	if w.target == "" || pronoun(w.target) {
		if i, ok := s.recent(entity); ok {
			return i.fields["id"], "", nil
		}
		return "", s.say(fmt.Sprintf("Which %s do you mean?", entity)), nil
	}
	if done, ok := s.last(tool); ok {
		id, why := choose(done.items, w.target, entity)
		if id == "" {
			if len(done.items) == 0 && !strings.HasPrefix(done.result, "Not found") {
				why = "That did not work: " + done.result
			}
			return "", s.say(why), nil
		}
		return id, "", nil
	}
	if entity == "task" {
		args["search"] = w.target
	}
	text, calls = s.use(tool, args)
	return "", text, calls
}

func pronoun(word string) bool {
	switch strings.ToLower(word) {
	case "it", "this", "that", "them", "one", "this one", "that one":
		return true
	}
	return false
}

// recent is the one row of the entity that the newest result before this message was about.
func (s *scene) recent(entity string) (item, bool) {
	for _, m := range slices.Backward(s.before) {
		if m.Role != schema.Tool || !strings.Contains(strings.SplitN(m.Content, "\n", 2)[0], entity) {
			continue
		}
		if found := items(m.Content); len(found) == 1 {
			return found[0], true
		}
		return item{}, false
	}
	return item{}, false
}

// choose is the row of that name: the exact one, else the only one that has the words.
func choose(found []item, name, entity string) (id, why string) {
	var exact, near []item
	for _, i := range found {
		switch {
		case strings.EqualFold(i.name, name):
			exact = append(exact, i)
		case strings.Contains(strings.ToLower(i.name), strings.ToLower(name)):
			near = append(near, i)
		}
	}
	if len(exact) == 0 {
		exact = near
	}
	switch len(exact) {
	case 0:
		return "", fmt.Sprintf("I found no %s called %q.", entity, name)
	case 1:
		return exact[0].fields["id"], ""
	}
	names := make([]string, len(exact))
	for i, e := range exact {
		names[i] = fmt.Sprintf("%s (%s)", e.name, e.fields["id"])
	}
	return "", fmt.Sprintf("There are several %ss like %q: %s. Which one do you mean?", entity, name, strings.Join(names, ", "))
}

// yes repeats what was refused before, when the user was asked to confirm it.
func (s *scene) yes() (string, []schema.ToolCall) {
	if _, ok := s.last("delete_project"); ok {
		return s.outcome("project"), nil
	}
	for _, m := range slices.Backward(s.before) {
		for _, c := range slices.Backward(m.ToolCalls) {
			if c.Function.Name == "delete_project" {
				id := rowArgument(c.Function.Arguments, "project_id")
				return s.use("delete_project", map[string]any{"project_id": id})
			}
		}
		if m.Role == schema.User {
			break
		}
	}
	return s.say("Good. What shall I do?"), nil
}
