package tools

import "encoding/json"

// property is the JSON Schema of an argument. Its fields stand in a fixed order, and the properties are
// sorted by name: the same catalogue always has the same bytes.
type property struct {
	Type        string    `json:"type"`
	Description string    `json:"description"`
	Enum        []string  `json:"enum,omitempty"`
	Minimum     *int      `json:"minimum,omitempty"`
	Maximum     *int      `json:"maximum,omitempty"`
	Default     any       `json:"default,omitempty"`
	Items       *property `json:"items,omitempty"`
	MinLength   int       `json:"minLength,omitempty"`
}

// Schema is the JSON Schema of the tool's arguments.
func (t Tool) Schema() json.RawMessage {
	properties, required := map[string]property{}, []string{}
	for _, p := range t.Params {
		properties[p.Name] = p.schema()
		if p.Required {
			required = append(required, p.Name)
		}
	}
	b, err := json.Marshal(struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
		Closed     bool                `json:"additionalProperties"`
	}{"object", properties, required, false})
	if err != nil { // strings, numbers and lists of them
		return json.RawMessage(`{"type":"object"}`)
	}
	return b
}

func (p Param) schema() property {
	s := property{Type: "string", Description: p.About, Default: p.Default}
	number := func(low, high int) {
		s.Type, s.Minimum, s.Maximum = "integer", &low, &high
	}
	switch p.Kind {
	case Name, ID:
		s.MinLength = 1
	case One:
		s.Enum = p.Choices
	case Flag:
		number(0, 1)
	case Count:
		number(1, MaxFound)
	case Names:
		s.Type, s.Items = "array", &property{Type: "string", Description: "one of them"}
	default:
	}
	return s
}
