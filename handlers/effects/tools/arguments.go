package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
)

// Arguments are checked arguments by name: text as string, flags and counts as int, days as Unix
// milliseconds (nil: take it away), lists as []string. Absent ones are not there.
type Arguments map[string]any

// text is the argument as text, empty if it is absent.
func (a Arguments) text(name string) string {
	s, _ := a[name].(string)
	return s
}

func (a Arguments) encode() json.RawMessage {
	b, err := json.Marshal(a)
	if err != nil { // the values are strings, numbers and lists of strings
		return json.RawMessage("{}")
	}
	return b
}

// Check reads the arguments as a model wrote them. Its error says everything that is wrong, in words for
// the model. Null counts as absent.
func (t Tool) Check(raw string, c Context) (Arguments, error) {
	given, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s are not a JSON object: %w", t.Name, err)
	}
	args, wrong := Arguments{}, []string(nil)
	for _, p := range t.Params {
		value, ok := given[p.Name]
		delete(given, p.Name)
		if !ok || string(value) == "null" {
			switch {
			case p.Required:
				wrong = append(wrong, p.Name+" is missing")
			case p.Default != nil:
				args[p.Name] = p.Default
			}
			continue
		}
		checked, err := p.check(value, c)
		if err != nil {
			wrong = append(wrong, p.Name+" "+err.Error())
			continue
		}
		args[p.Name] = checked
	}
	for _, name := range sorted(given) {
		wrong = append(wrong, fmt.Sprintf("%q is no argument of it (it takes: %s)", name, t.takes()))
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("invalid arguments for %s: %s", t.Name, strings.Join(wrong, "; "))
	}
	return args, nil
}

func (t Tool) takes() string {
	if len(t.Params) == 0 {
		return "nothing"
	}
	names := make([]string, len(t.Params))
	for i, p := range t.Params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

func object(raw string) (map[string]json.RawMessage, error) {
	if strings.TrimSpace(raw) == "" {
		return map[string]json.RawMessage{}, nil
	}
	given := map[string]json.RawMessage{}
	decoder := json.NewDecoder(strings.NewReader(raw))
	if err := decoder.Decode(&given); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, fmt.Errorf("something follows the object")
	}
	if given == nil { // the text was null
		given = map[string]json.RawMessage{}
	}
	return given, nil
}

func sorted(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p Param) check(value json.RawMessage, c Context) (any, error) {
	switch p.Kind {
	case Flag:
		return flag(value)
	case Count:
		return count(value)
	case Names:
		return names(value)
	default:
	}
	text, err := asText(value)
	if err != nil {
		return nil, err
	}
	switch p.Kind {
	case Name, ID:
		text = strings.TrimSpace(text)
		if text == "" {
			return nil, fmt.Errorf("is empty")
		}
		if p.Kind == ID && !thread.IsRowID(text) {
			return nil, errors.New("is no id: ids have at most 200 bytes, and no spaces")
		}
	case One:
		if i := slices.Index(p.Wires, text); i >= 0 {
			text = p.Choices[i]
		}
		if !slices.Contains(p.Choices, text) {
			return nil, fmt.Errorf("must be one of %s, not %q", strings.Join(p.Choices, ", "), text)
		}
	case Day:
		return day(text, c)
	default:
	}
	return text, nil
}

func asText(value json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(value, &text); err == nil {
		return text, nil
	}
	if v := bytes.TrimSpace(value); len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') {
		return string(v), nil // a number where a text belongs: the digits
	}
	return "", fmt.Errorf("must be a text")
}

func flag(value json.RawMessage) (any, error) {
	switch strings.Trim(string(value), `"`) {
	case "0", "false":
		return 0, nil
	case "1", "true":
		return 1, nil
	}
	return nil, fmt.Errorf("must be 0 or 1")
}

func count(value json.RawMessage) (any, error) {
	var n int
	if err := json.Unmarshal([]byte(strings.Trim(string(value), `"`)), &n); err != nil || n < 1 {
		return nil, fmt.Errorf("must be a whole number from 1")
	}
	return n, nil
}

func names(value json.RawMessage) (any, error) {
	var list []string
	if err := json.Unmarshal(value, &list); err == nil {
		return list, nil
	}
	var one string
	if err := json.Unmarshal(value, &one); err != nil {
		return nil, fmt.Errorf("must be a list of texts")
	}
	for _, name := range strings.Split(one, ",") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	return list, nil
}

// day reads a date as the start of that day for the user, or a moment.
func day(text string, c Context) (any, error) {
	text = strings.TrimSpace(text)
	if text == "none" || text == "" {
		return nil, nil
	}
	zone := c.now().Location()
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at.UnixMilli(), nil
		}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UnixMilli(), nil
	}
	if from, ok := relative(strings.ToLower(text), c); ok {
		return from.UnixMilli(), nil
	}
	var ms int64
	if err := json.Unmarshal([]byte(text), &ms); err == nil && ms > 1e11 && ms < 1e14 {
		return ms, nil
	}
	return nil, fmt.Errorf("must be a date (YYYY-MM-DD) or a time (RFC 3339), not %q", text)
}

func relative(word string, c Context) (time.Time, bool) {
	from, to := c.today()
	switch word {
	case "today":
		return from, true
	case "tomorrow":
		return to, true
	case "yesterday":
		return time.Date(from.Year(), from.Month(), from.Day()-1, 0, 0, 0, 0, from.Location()), true
	}
	return time.Time{}, false
}

// wire is the argument as the device stores it.
func (p Param) wire(value any) any {
	switch v := value.(type) {
	case []string:
		b, err := json.Marshal(v)
		if err != nil {
			return "[]"
		}
		return string(b)
	case string:
		if p.Kind == One && len(p.Wires) > 0 {
			return p.Wires[slices.Index(p.Choices, v)]
		}
	}
	return value
}
