package tools

import (
	"encoding/json"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
)

// Tool is something an agent may call.
type Tool struct {
	Name, About string
	Params      []Param
	// Action and Table are the device's.
	Action, Table string
	// Then is the server step that follows the device's, such as "index_note".
	Then string

	plan func(Context, Tool, Arguments) (thread.Plan, thread.Payload, error)
}

// The server steps.
const (
	IndexNote  = thread.IndexNote // embeds a note that the device stored; the vector goes back to the device
	EmbedQuery = "embed_query"    // embeds what is searched for
)

// Kind is the sort of an argument.
type Kind string

// The sorts of arguments.
const (
	Text  Kind = "text"  // any text
	Name  Kind = "name"  // text that is not empty
	ID    Kind = "id"    // the id of a row
	One   Kind = "one"   // one of the choices
	Flag  Kind = "flag"  // 0 or 1
	Day   Kind = "day"   // a date, or a date and a time
	Count Kind = "count" // a whole number from 1
	Names Kind = "names" // a list of texts
)

// Param is an argument of a tool.
type Param struct {
	Name string
	// Wire is the column or filter it becomes; empty: none.
	Wire     string
	Kind     Kind
	Required bool
	Choices  []string
	// Wires are the wire forms of the choices, where they differ.
	Wires []string
	// Default is taken when the argument is absent; nil: none.
	Default any
	About   string
}

// Context is what a plan may depend on besides the arguments.
type Context struct {
	// Now is the time; its day in Zone is the user's today.
	Now  time.Time
	Zone *time.Location // nil: UTC
	// ProjectID is the project the client says the conversation is in.
	ProjectID string
	// Talk is what the user and the agents said, for what needs a confirmation.
	Talk Talk
}

func (c Context) now() time.Time {
	if c.Zone == nil {
		return c.Now.UTC()
	}
	return c.Now.In(c.Zone)
}

// today is the user's day as a half-open interval.
func (c Context) today() (from, to time.Time) {
	n := c.now()
	return time.Date(n.Year(), n.Month(), n.Day(), 0, 0, 0, 0, n.Location()),
		time.Date(n.Year(), n.Month(), n.Day()+1, 0, 0, 0, 0, n.Location())
}

// Zone is the time zone of that name; an unknown one is UTC.
func Zone(name string) *time.Location {
	if name == "" || name == "Local" {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// fields are what is merged into the device's frame.
type fields struct {
	Data    map[string]any `json:"data,omitempty"`
	Filters map[string]any `json:"filters,omitempty"`
}

func (f fields) encode() json.RawMessage {
	b, err := json.Marshal(f)
	if err != nil { // the values are strings, numbers and lists of them
		return json.RawMessage("{}")
	}
	return b
}

// repeatable actions may be offered to a device a second time without harm.
func repeatable(action string) bool { return action != "insert" }
