package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain/thread"
)

// MaxArguments is how many bytes of arguments a call may have.
const MaxArguments = 256 << 10

// Unknown is the tool's name in a plan where the model named no tool of ours.
const Unknown = "unknown"

// Plan says what a call of an agent does first. It never fails: what can't be done becomes an answer at
// once, in words for the model.
func (a Agent) Plan(c Context, name, arguments string) (thread.Plan, thread.Payload) {
	tool, ok := a.Tool(name)
	if !ok {
		return refusal(Unknown, fmt.Sprintf("There is no tool called %q here. The tools are: %s.", clip(name, 100), a.names()))
	}
	if len(arguments) > MaxArguments {
		return refusal(name, fmt.Sprintf("The arguments of %s have %d bytes; at most %d are taken.", name, len(arguments), MaxArguments))
	}
	args, err := tool.Check(arguments, c)
	if err != nil {
		return refusal(name, sentence(err))
	}
	plan, payload, err := tool.plan(c, tool, args)
	if err != nil {
		plan, payload = refusal(name, sentence(err))
	}
	payload.Arguments = args.encode()
	return plan, payload
}

func (a Agent) names() string {
	names := make([]string, len(a.Tools))
	for i, t := range a.Tools {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}

func refusal(tool, words string) (thread.Plan, thread.Payload) {
	return thread.Plan{Tool: tool, Executor: thread.AtOnce}, thread.Payload{Answer: words}
}

// sentence makes an error a sentence for the model.
func sentence(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	_, size := utf8.DecodeRuneInString(text)
	text = strings.ToUpper(text[:size]) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func (t Tool) onDevice(f fields) (thread.Plan, thread.Payload, error) {
	return thread.Plan{
		Tool: t.Name, Executor: thread.OnDevice, Action: t.Action, Table: t.Table, Repeatable: repeatable(t.Action),
	}, thread.Payload{Fields: f.encode()}, nil
}

// columns are the arguments as the device names and stores them; absent ones are left out.
func (t Tool) columns(args Arguments) map[string]any {
	columns := map[string]any{}
	for _, p := range t.Params {
		if value, ok := args[p.Name]; ok && p.Wire != "" {
			columns[p.Wire] = p.wire(value)
		}
	}
	return columns
}

func selecting(_ Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	filters := t.columns(args)
	for name, value := range filters {
		if value == nil || value == "" {
			delete(filters, name)
		}
	}
	return t.onDevice(fields{Filters: filters})
}

func inserting(_ Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	data := t.columns(args)
	for name, value := range data {
		if value == nil { // "none" for a day: there is none
			delete(data, name)
		}
	}
	plan, payload, err := t.onDevice(fields{Data: data})
	plan.Then = t.Then
	return plan, payload, err
}

// naming is the plan of an action on one row by its id.
func naming(_ Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	return t.onDevice(fields{Data: map[string]any{"id": args.text(t.Params[0].Name)}})
}

func updating(_ Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	updates := t.columns(args)
	if len(updates) == 0 {
		return thread.Plan{}, thread.Payload{}, fmt.Errorf("%s was given nothing to change (it takes: %s)", t.Name, t.takes())
	}
	return t.onDevice(fields{Data: map[string]any{"id": args.text(t.Params[0].Name), "updates": updates}})
}

// updatingNote indexes the note again only where its content changed.
func updatingNote(c Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	plan, payload, err := updating(c, t, args)
	if _, changed := args["content"]; changed && err == nil {
		plan.Then = t.Then
	}
	return plan, payload, err
}

func dueToday(c Context, t Tool, _ Arguments) (thread.Plan, thread.Payload, error) {
	from, to := c.today()
	return t.onDevice(fields{Filters: map[string]any{"dueDateFrom": from.UnixMilli(), "dueDateTo": to.UnixMilli() - 1}})
}

func allProjects(_ Context, t Tool, _ Arguments) (thread.Plan, thread.Payload, error) {
	return t.onDevice(fields{Filters: map[string]any{"includeArchived": 1}})
}

func deletingProject(c Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	if project := args.text("project_id"); !c.Talk.Confirms(project) {
		return thread.Plan{}, thread.Payload{}, fmt.Errorf(
			"project %s was not deleted: the user has not confirmed it. Deleting a project can't be undone. "+
				"Suggest archiving it instead (update_project with status archived), and ask the user to confirm if they really want it deleted", project)
	}
	return naming(c, t, args)
}

// MaxFound is how many notes a search may ask for.
const MaxFound = 50

// searching begins on the server, which embeds the query.
func searching(_ Context, t Tool, args Arguments) (thread.Plan, thread.Payload, error) {
	if n, ok := args["limit"].(int); ok && n > MaxFound {
		args["limit"] = MaxFound
	}
	return thread.Plan{Tool: t.Name, Executor: thread.OnServer, Then: t.Then, Repeatable: true}, thread.Payload{}, nil
}

// clip cuts text to at most limit bytes, at a character's start.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
