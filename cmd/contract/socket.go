package main

import (
	"bytes"
	_ "embed" // the document's text around the types
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

//go:embed socket.tmpl
var socketText string

//go:embed frames.yaml
var framesText []byte

//go:embed parts.yaml
var partsText []byte

// frame is a frame of the socket.
type frame struct {
	Type    string         `yaml:"-"`
	Up      string         `yaml:"up"`   // what it is where a client sends it; empty: none does
	Down    string         `yaml:"down"` // where the server sends it
	Name    string         `yaml:"name"` // of its schema; empty: follows from the type
	Include string         `yaml:"include"`
	Typed   string         `yaml:"typed"`
	Fields  map[string]any `yaml:"schema"`
}

// Schema is the name of the frame's schema, such as StreamText.
func (f frame) Schema() string {
	if f.Name != "" {
		return f.Name
	}
	name := ""
	for word := range strings.SplitSeq(f.Type, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// About is what it is.
func (f frame) About() string {
	if f.Up == f.Down || f.Down == "" {
		return f.Up
	}
	return strings.TrimSpace(f.Down + " " + f.Up)
}

// Direction is who sends it.
func (f frame) Direction() string {
	switch {
	case f.Up == "":
		return "from the server"
	case f.Down == "":
		return "from the client"
	default:
		return "from both"
	}
}

// clientEvent is an event as a client is told it: what is clear, and what is sealed in the log, opened.
type clientEvent struct {
	Type   string
	Name   string
	Schema int
	Text   string // YAML on one line, which is JSON
}

// socketAPI is the AsyncAPI document of the device's socket.
func socketAPI(types []eventType, words *words) ([]byte, error) {
	frames, err := readFrames()
	if err != nil {
		return nil, err
	}
	schemas, err := frameSchemas(frames)
	if err != nil {
		return nil, err
	}
	events := make([]clientEvent, 0, len(types))
	for _, e := range types {
		text, err := e.opened(words)
		if err != nil {
			return nil, err
		}
		events = append(events, clientEvent{Type: e.Kind.Name(), Name: e.goName(), Schema: e.Kind.Schema(), Text: text})
	}
	text, err := template.New("socket").Funcs(template.FuncMap{"quote": quote}).Parse(socketText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = text.Execute(&b, map[string]any{"Frames": frames, "Schemas": schemas, "Events": events})
	return b.Bytes(), err
}

// readFrames reads the frames in the order in which they are written.
func readFrames() ([]frame, error) {
	var order yaml.Node
	named := map[string]frame{}
	if err := yaml.Unmarshal(framesText, &order); err != nil {
		return nil, fmt.Errorf("frames.yaml: %w", err)
	}
	if err := yaml.Unmarshal(framesText, &named); err != nil {
		return nil, fmt.Errorf("frames.yaml: %w", err)
	}
	var frames []frame
	for i := 0; i < len(order.Content[0].Content); i += 2 {
		f := named[order.Content[0].Content[i].Value]
		f.Type = order.Content[0].Content[i].Value
		frames = append(frames, f)
	}
	return frames, nil
}

// frameSchemas are the schemas of the frames and of what they consist of, as they stand in the document.
func frameSchemas(frames []frame) (string, error) {
	parts := map[string]map[string]any{}
	if err := yaml.Unmarshal(partsText, &parts); err != nil {
		return "", fmt.Errorf("parts.yaml: %w", err)
	}
	all := map[string]any{}
	for name, part := range parts {
		part["title"] = name
		all[name] = part
	}
	for _, f := range frames {
		if all[f.Schema()] != nil {
			return "", fmt.Errorf("frames.yaml: %s has the name of another schema, %s", f.Type, f.Schema())
		}
		properties, _ := f.Fields["properties"].(map[string]any)
		whole := map[string]any{"type": map[string]any{"const": f.Type}}
		for name, p := range properties {
			whole[name] = p
		}
		if f.Include != "" {
			part := parts[f.Include]
			for name, p := range part["properties"].(map[string]any) {
				whole[name] = p
			}
			f.Fields["required"] = slices.Concat(f.Fields["required"].([]any), part["required"].([]any))
		}
		f.Fields["properties"], f.Fields["type"], f.Fields["title"], f.Fields["description"] = whole, "object", f.Schema(), f.About()
		all[f.Schema()] = f.Fields
	}
	refer(all)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(all); err != nil {
		return "", err
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\n    "), nil
}

// refer makes a reference to a schema by its name one that can be followed.
func refer(v any) {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["$ref"].(string); ok && !strings.HasPrefix(name, "#") {
			v["$ref"] = "#/components/schemas/" + name
		}
		for _, inner := range v {
			refer(inner)
		}
	case []any:
		for _, inner := range v {
			refer(inner)
		}
	}
}

// goName is the aggregate and the Go type, such as ThreadTitled: unique, and a type's name in any language.
func (e eventType) goName() string {
	return strings.ToUpper(e.Aggregate[:1]) + e.Aggregate[1:] + e.Kind.Type().Name()
}

// opened is the schema of the clear data, with the sealed field as one more member, "content".
func (e eventType) opened(words *words) (string, error) {
	r := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: true,
		CommentMap: words.comments, Mapper: words.mapped,
	}
	s := r.ReflectFromType(e.Kind.Type())
	s.Version, s.ID, s.Title = "", "", e.goName()
	if at := e.Kind.SealedField(); at >= 0 {
		content := r.ReflectFromType(e.Kind.Type().Field(at).Type)
		content.Version, content.ID, content.Title = "", "", e.goName()+"Content"
		s.Properties.Set("content", content)
	}
	raw, err := json.Marshal(s)
	return string(raw), err
}
