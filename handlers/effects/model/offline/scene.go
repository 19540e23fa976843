package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cloudwego/eino/schema"

	"github.com/cairnhq/cairn/handlers/effects/tools"
)

// scene is what the model finds in its prompt.
type scene struct {
	routing   bool
	home      bool
	today     time.Time
	projectID string
	focus     string // task, project, note, checkpoint
	focusID   string
	tools     map[string]bool
	text      string            // the user's message
	before    []*schema.Message // what came before it
	done      []step            // what this request has called already
	calls     int               // in the whole prompt
}

// step is a call and its result.
type step struct {
	tool   string
	args   map[string]any
	result string
	items  []item
}

// item is a row as a result shows it.
type item struct {
	name   string
	fields map[string]string
}

var (
	todayWords   = regexp.MustCompile(`Today is \w+, (\d{4}-\d{2}-\d{2})\.`)
	projectWords = regexp.MustCompile(`in the project with the id (\S+)\.\n`)
	focusWords   = regexp.MustCompile(`The request (?:is|was made) about (?:the user's|the|a) (task|project|note|checkpoint)s?(?: with the id (\S+))?\.`)
)

func read(input []*schema.Message, offered []*schema.ToolInfo) *scene {
	s := &scene{tools: map[string]bool{}}
	for _, t := range offered {
		s.tools[t.Name] = true
	}
	last := -1
	for i, m := range input {
		switch m.Role {
		case schema.System:
			s.system(m.Content)
		case schema.User:
			last = i
		default:
		}
		s.calls += len(m.ToolCalls)
	}
	if last < 0 {
		return s
	}
	s.text, s.before = strings.TrimSpace(input[last].Content), input[:last]
	s.follow(input[last+1:])
	return s
}

func (s *scene) system(text string) {
	s.routing = s.routing || strings.HasPrefix(text, tools.RouterMark)
	s.home = s.home || strings.Contains(text, tools.HomeMark)
	if m := todayWords.FindStringSubmatch(text); m != nil {
		s.today, _ = time.Parse(time.DateOnly, m[1])
	}
	if m := projectWords.FindStringSubmatch(text); m != nil {
		s.projectID = m[1]
	}
	if m := focusWords.FindStringSubmatch(text); m != nil {
		s.focus, s.focusID = m[1], m[2]
	}
}

// follow pairs this request's calls with their results.
func (s *scene) follow(messages []*schema.Message) {
	byID := map[string]int{}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			args := map[string]any{}
			_ = json.Unmarshal([]byte(c.Function.Arguments), &args) // an answer to broken arguments is read all the same
			byID[c.ID] = len(s.done)
			s.done = append(s.done, step{tool: c.Function.Name, args: args})
		}
		if at, ok := byID[m.ToolCallID]; ok && m.Role == schema.Tool {
			s.done[at].result, s.done[at].items = m.Content, items(m.Content)
		}
	}
}

// items reads the rows of a result: "- name | id: … | status: …".
func items(result string) []item {
	var found []item
	for line := range strings.Lines(result) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "- ")
		if !ok {
			continue
		}
		name, rest, ok := strings.Cut(line, " | id: ")
		if !ok {
			continue
		}
		i := item{name: name, fields: map[string]string{}}
		for n, field := range strings.Split("id: "+rest, " | ") {
			label, value, ok := strings.Cut(field, ": ")
			if ok && (n == 0 || i.fields[label] == "") {
				i.fields[label] = value
			}
		}
		found = append(found, i)
	}
	return found
}

// last is the newest result of a tool in this request.
func (s *scene) last(tool string) (step, bool) {
	for i := len(s.done) - 1; i >= 0; i-- {
		if s.done[i].tool == tool {
			return s.done[i], true
		}
	}
	return step{}, false
}

// call makes a call; its id is its number in the prompt.
func (s *scene) call(tool string, args map[string]any) schema.ToolCall {
	s.calls++
	b, err := json.Marshal(args)
	if err != nil { // texts and numbers
		b = []byte("{}")
	}
	return schema.ToolCall{
		ID: fmt.Sprintf("call_%d", s.calls), Type: "function",
		Function: schema.FunctionCall{Name: tool, Arguments: string(b)},
	}
}
