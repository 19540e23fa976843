package live_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/cairnhq/cairn/handlers/live"
)

// document is asyncapi.yaml, to hold real frames against: all that any test here is sent.
type document struct {
	schemas  map[string]any // as they are written
	payloads map[string]*jsonschema.Schema
	names    map[string]string // of the schema, by the frame's type
	down, up []string          // the types that the server and the client send
}

func readDocument(t testing.TB) *document {
	t.Helper()
	var told map[string]any
	check(t, yaml.Unmarshal([]byte(live.AsyncAPI()), &told))
	raw, err := json.Marshal(told)
	check(t, err)
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	check(t, err)
	const uri = "file:///asyncapi.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7) // AsyncAPI's
	compiler.AssertFormat()
	check(t, compiler.AddResource(uri, whole))
	components := whole.(map[string]any)["components"].(map[string]any)
	d := &document{schemas: components["schemas"].(map[string]any), payloads: map[string]*jsonschema.Schema{}, names: map[string]string{}}
	for name, message := range components["messages"].(map[string]any) {
		d.payloads[name], err = compiler.Compile(uri + "#/components/messages/" + name + "/payload")
		check(t, err)
		payload := message.(map[string]any)["payload"].(map[string]any)
		if parts, ok := payload["allOf"].([]any); ok {
			payload = parts[0].(map[string]any)
		}
		d.names[name] = strings.TrimPrefix(payload["$ref"].(string), "#/components/schemas/")
	}
	operations := whole.(map[string]any)["operations"].(map[string]any)
	types := func(operation string) (names []string) {
		for _, ref := range operations[operation].(map[string]any)["messages"].([]any) {
			path := strings.Split(ref.(map[string]any)["$ref"].(string), "/")
			names = append(names, path[len(path)-1])
		}
		return names
	}
	d.down, d.up = types("send"), types("receive")
	return d
}

// holds says where a frame of the server is not what the document says, or says more than it.
func (d *document) holds(text []byte) []string {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return []string{err.Error()}
	}
	object, _ := value.(map[string]any)
	kind, _ := object["type"].(string)
	if !slices.Contains(d.down, kind) {
		return []string{"the document knows no such frame from the server"}
	}
	var faults []string
	if err := d.payloads[kind].Validate(value); err != nil {
		faults = append(faults, err.Error())
	}
	return append(faults, d.untold(d.schemas[d.names[kind]], value, "")...)
}

// untold are the fields of a frame that the document does not tell.
func (d *document) untold(schema, value any, at string) (faults []string) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return d.untold(d.schemas[strings.TrimPrefix(ref, "#/components/schemas/")], value, at)
	}
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			faults = append(faults, d.untold(s["items"], element, at+"/*")...)
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		if s["additionalProperties"] == true || len(properties) == 0 {
			return nil // anything
		}
		for name, field := range v {
			if p, ok := properties[name]; ok {
				faults = append(faults, d.untold(p, field, at+"/"+name)...)
			} else {
				faults = append(faults, "the document does not tell of "+at+"/"+name)
			}
		}
		data := d.schemas["EventData"].(map[string]any)["properties"].(map[string]any)
		if of, ok := v["event_type"].(string); ok && data[of] != nil {
			faults = append(faults, d.untold(data[of], v["data"], at+"/data")...)
		}
	}
	return faults
}

// What the document says a client may send is taken, and what it says is wrong is refused.
func TestTheDocumentSaysWhatIsTaken(t *testing.T) {
	t.Parallel()
	r := newRing(t, live.Timing{})
	thread := "thread-" + strings.Repeat("a", 8)
	for _, c := range []struct {
		right bool
		text  string
	}{
		{true, `{"type":"device_hello","device_id":"laptop","protocol":3,"name":"Ada's","timezone":"Europe/Rome","journal":true,"batch":true,"agent_ids":["a"]}`},
		{true, `{"type":"device_hello","device_id":"laptop"}`},
		{true, `{"type":"home_request","message":"hello","request_id":"r1","on_busy":"queue","conversation_history":[{"role":"user","content":"hi"},{"role":"user","content":[1]}]}`},
		{true, `{"type":"floating_request","message":"hello","request_id":"r2","scope":{"type":"task","id":"t1"}}`},
		{true, `{"type":"chat_request","message":"hello","request_id":"r3","context":{"project_id":"p","conversation_history":[]}}`},
		{true, `{"type":"cancel","request_id":"r1"}`},
		{true, `{"type":"tool_ack","id":"x"}`},
		{true, `{"type":"ping"}`},
		{true, `{"type":"pong"}`},
		{true, `{"type":"subscribe","id":"s1","scope":"user-ada","after":0,"stored":true,"filter":{"types":["thread.titled"],"agent_id":"task_agent"}}`},
		{true, `{"type":"subscribe","id":"s2","scope":"user-ada","after":0,"unknown":"is ignored"}`},
		{true, `{"type":"unsubscribe","id":"s2"}`},
		{false, `{"type":"device_hello"}`},
		{false, `{"type":"device_hello","device_id":""}`},
		{false, `{"type":"device_hello","device_id":"laptop","protocol":4}`},
		{false, `{"type":"device_hello","device_id":7}`},
		{false, `{"type":"home_request"}`},
		{false, `{"type":"home_request","message":7}`},
		{false, `{"type":"home_request","message":"x","on_busy":"panic"}`},
		{false, `{"type":"floating_request","message":"x"}`},
		{false, `{"type":"floating_request","message":"x","scope":{"type":"person"}}`},
		{false, `{"type":"cancel"}`},
		{false, `{"type":"tool_result"}`},
		{false, `{"type":"data_response"}`},
		{false, `{"type":"subscribe","id":"s3"}`},
		{false, `{"type":"subscribe","id":"","scope":"user-ada"}`},
		{false, `{"type":"subscribe","id":"s3","scope":"user-ada","stream":"` + thread + `"}`},
		{false, `{"type":"subscribe","id":"s3","scope":"user-ada","after":-1}`},
		{false, `{"type":"subscribe","id":"s3","scope":"user-ada","after":0,"after_hash":"xyz"}`},
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.text))
		check(t, err)
		kind := value.(map[string]any)["type"].(string)
		if err := r.document.payloads[kind].Validate(value); (err == nil) != c.right || !slices.Contains(r.document.up, kind) {
			t.Errorf("%s: the document says %v", c.text, err)
		}
		var refused bool
		if kind == "device_hello" {
			d := r.dial("ada")
			d.raw([]byte(c.text))
			d.raw([]byte(`{"type":"ping"}`))
			refused = d.refuses()
		} else {
			d := r.device("ada", "laptop", frame{"batch": true})
			d.raw([]byte(c.text))
			d.raw([]byte(`{"type":"ping"}`))
			refused = d.refuses()
		}
		if refused == c.right {
			t.Errorf("%s: refused: %v", c.text, refused)
		}
	}
}

// refuses reports whether something was refused before the answer to a ping.
func (c *client) refuses() bool {
	c.t.Helper()
	refused := false
	for {
		switch f := c.next(); f.text("type") {
		case "error":
			refused = refused || f.text("code") == "invalid" || f.text("code") == "malformed"
		case "pong":
			return refused
		}
		if refused {
			return true // and perhaps closed
		}
	}
}
