package tools

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
)

// Agent is one of the built-in chat agents.
type Agent struct {
	Name string
	// Domain is what a floating answer says it is about.
	Domain string
	// About is what the router reads.
	About string
	// Role begins the system prompt.
	Role  string
	Tools []Tool
}

// Fallback is the agent that answers when the router names none.
const Fallback = "task_agent"

// Agents are the built-in agents, in the order in which the router reads them.
func Agents() []Agent {
	return []Agent{
		{
			Name: "task_agent", Domain: "tasks",
			About: "tasks and to-dos: create, list, search, update, complete, delete, count; what is due; comments on tasks; everything no other agent fits",
			Role:  "You manage the user's tasks and the comments on them.",
			Tools: taskTools(),
		},
		{
			Name: "project_agent", Domain: "projects",
			About: "projects and clients' projects: create, list, look at, rename, archive, delete, summarise",
			Role:  "You manage the user's projects. Deleting a project can't be undone: suggest archiving it, and delete only what the user has confirmed in words.",
			Tools: projectTools(),
		},
		{
			Name: "checkpoint_agent", Domain: "checkpoints",
			About: "checkpoints and milestones of a project: create, list, move, approve, delete",
			Role:  "You manage the checkpoints (milestones) of the user's projects. A checkpoint always belongs to a project.",
			Tools: checkpointTools(),
		},
		{
			Name: "note_agent", Domain: "notes",
			About: "notes: write, list, read, change, delete, search by meaning",
			Role:  "You manage the user's notes. Notes are written in Markdown.",
			Tools: noteTools(),
		},
	}
}

// AgentNamed is the agent with that name.
func AgentNamed(name string) (Agent, bool) {
	agents := Agents()
	if i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == name }); i >= 0 {
		return agents[i], true
	}
	return Agent{}, false
}

// Tool is the agent's tool with that name.
func (a Agent) Tool(name string) (Tool, bool) { return named(a.Tools, name) }

// ToolNamed is the tool with that name, whichever agent has it.
func ToolNamed(name string) (Tool, bool) {
	for _, a := range Agents() {
		if t, ok := a.Tool(name); ok {
			return t, true
		}
	}
	return Tool{}, false
}

func named(tools []Tool, name string) (Tool, bool) {
	if i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name }); i >= 0 {
		return tools[i], true
	}
	return Tool{}, false
}

// HomeMark stands in every system prompt that asks for the home screen's objects.
const HomeMark = `{"type":"text","content":"…"}`

// RouterMark begins the router's system prompt.
const RouterMark = "You choose the agent that answers a request."

// NoToolsMark tells the model that its rounds of tools are used up.
const NoToolsMark = "Your tool rounds are used up."

const homeOutput = `Write your answer as a sequence of JSON objects, one after another, without a list around them:
` + HomeMark + ` for everything you say in words (Markdown inside is fine);
{"type":"entity_ref","entity":"task"} to show the rows that your tools returned (entity is task, project, note or checkpoint; "ids":["…"] for some of them); never write rows yourself;
{"type":"table","headers":["…"],"rows":[["…"]]} with rows as long as the headers;
{"type":"timeline","checkpoints":[{"id":"…","title":"…","date":"…"}]};
{"type":"chart","chartType":"bar","title":"…","data":[{"name":"…","value":1}],"config":{"value":{"label":"…"}}} with chartType area, bar, line, pie, radar or radial.
Begin with a text object. Show rows by entity_ref after you listed, created or changed them.`

// Prompt is the agent's system prompt for a run.
func (a Agent) Prompt(c Context, channel thread.Channel, focus *thread.Focus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are %s, the assistant in a workspace on the user's computer. %s\n", a.Name, a.Role)
	fmt.Fprintf(&b, "%s\n", todayLine(c))
	b.WriteString("The data is on the user's device; you reach it only through your tools. Never invent rows, ids or numbers: look first. " +
		"Ids come from tool results. When a tool fails, say so plainly; never say that something was done when it was not. " +
		"When it is not known whether something was done, look before repeating it. Answer in the user's language, briefly.\n")
	if c.ProjectID != "" {
		fmt.Fprintf(&b, "The conversation is in the project with the id %s.\n", c.ProjectID)
	}
	if focus != nil && focus.ID != "" {
		fmt.Fprintf(&b, "The request is about the %s with the id %s.\n", focus.Type, focus.ID)
	} else if focus != nil {
		fmt.Fprintf(&b, "The request is about the user's %ss.\n", focus.Type)
	}
	if channel == thread.Home {
		b.WriteString(homeOutput)
	} else {
		b.WriteString("Write plain text.")
	}
	return b.String()
}

func todayLine(c Context) string {
	now := c.now()
	return fmt.Sprintf("Today is %s, %s. The time is %s in the user's time zone (%s).",
		now.Weekday(), now.Format(time.DateOnly), now.Format("15:04"), now.Location())
}

// RouterPrompt is the system prompt of the router.
func RouterPrompt(focus *thread.Focus) string {
	var b strings.Builder
	b.WriteString(RouterMark + " Answer with the name of one agent and nothing else.\n")
	for _, a := range Agents() {
		fmt.Fprintf(&b, "- %s: %s\n", a.Name, a.About)
	}
	if focus != nil {
		fmt.Fprintf(&b, "The request was made about a %s.\n", focus.Type)
	}
	b.WriteString("If none fits, answer " + Fallback + ".")
	return b.String()
}

// ParseRoute is the agent that the router's answer names; without one it is the fallback. Of several,
// the first named counts.
func ParseRoute(answer string) (agent string, fallback bool) {
	best, at := "", len(answer)
	for _, a := range Agents() {
		if i := strings.Index(answer, a.Name); i >= 0 && i < at {
			best, at = a.Name, i
		}
	}
	if best == "" {
		return Fallback, true
	}
	return best, false
}
