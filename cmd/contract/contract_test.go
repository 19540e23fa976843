package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/schemas"
)

const root = "../.."

func TestTheContractIsUpToDate(t *testing.T) {
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		there, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(there, text) {
			t.Errorf("%s is not what the types say: run `make contract`, look at the diff, commit it (%v)", name, err)
		}
	}
}

func TestEveryEventHasAFeedAndASchema(t *testing.T) {
	for _, a := range aggregates.All() {
		if _, err := feed.Of(domain.NewStream(a.Kind, "x")); err != nil {
			t.Error(err)
		}
		for _, k := range a.Events {
			if _, err := schemas.Read(k.Name(), schemas.Newest(k.Name())); err != nil {
				t.Errorf("%s has no schema: run `make contract` (%v)", k.Name(), err)
			}
		}
	}
}

// compile compiles a public schema with its meta-schema, formats included.
func compile(t *testing.T, typ string, major int) *jsonschema.Schema {
	t.Helper()
	text, err := schemas.Read(typ, major)
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, schemas.URI(typ, major), text)
}

func compiled(t *testing.T, uri string, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(uri, document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(uri)
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	return s
}

// TestEverySampleIsReadForEver reads each sample that was ever written: it has its schema, and this release still reads
// what it says.
func TestEverySampleIsReadForEver(t *testing.T) {
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(root, "streams/samples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var sample struct {
			Type          string
			Schemaversion int
			Data          json.RawMessage
		}
		if err := json.Unmarshal(text, &sample); err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		typ, version, _ := strings.Cut(sample.Type, ".v")
		if want := filepath.Join(root, "streams/samples", typ, "v"+version); filepath.Dir(path) != want {
			t.Errorf("%s holds a %s", path, sample.Type)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(sample.Data))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		var major int
		if err := json.Unmarshal([]byte(version), &major); err != nil {
			t.Errorf("%s: version %q", path, version)
			return nil
		}
		if err := compile(t, typ, major).Validate(value); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := schema.Decode(streams.Recorded{Type: typ, Schema: sample.Schemaversion, Data: sample.Data}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		seen[typ] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range schemas.Types() {
		if !seen[typ] {
			t.Errorf("%s has no sample", typ)
		}
	}
}

func TestASchemaRefusesWhatIsNoEvent(t *testing.T) {
	s := compile(t, "thread.run_completed", 1)
	for _, text := range []string{`{}`, `{"run_id":1,"turns":1}`, `{"run_id":"r","turns":"many"}`, `[]`} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(value) == nil {
			t.Errorf("%s passes", text)
		}
	}
}

// The AsyncAPI documents.
const (
	feedsDocument  = "streams/asyncapi.yaml"
	socketDocument = "handlers/live/asyncapi.yaml"
)

// document reads an AsyncAPI document as JSON values.
func document(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return value.(map[string]any)
}

func TestTheDocumentsAreAsyncAPI(t *testing.T) {
	official, err := os.ReadFile("testdata/asyncapi-3.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, "https://asyncapi.com/schema-store/3.1.0-without-$id.json", official)
	for path, operation := range map[string]string{feedsDocument: "publish_threads", socketDocument: "send"} {
		d := document(t, path)
		if err := s.Validate(d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		d["operations"].(map[string]any)[operation].(map[string]any)["action"] = "shout"
		if s.Validate(d) == nil {
			t.Errorf("%s: an action that AsyncAPI does not know passes", path)
		}
	}
}

// TestEveryReferenceLeadsSomewhere follows what the official schema does not: references, within the document and to the
// schemas beside it.
func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	for _, path := range []string{feedsDocument, socketDocument} {
		d := document(t, path)
		found := 0
		var walk func(any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if ref, ok := v["$ref"].(string); ok {
					found++
					if err := follow(d, filepath.Dir(path), ref); err != nil {
						t.Errorf("%s: %s: %v", path, ref, err)
					}
				}
				for _, inner := range v {
					walk(inner)
				}
			case []any:
				for _, inner := range v {
					walk(inner)
				}
			}
		}
		walk(d)
		if found < 50 {
			t.Errorf("%s: only %d references", path, found)
		}
	}
}

func follow(d map[string]any, folder, ref string) error {
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		_, err := os.Stat(filepath.Join(root, folder, ref))
		return err
	}
	var at any = d
	for _, name := range strings.Split(path, "/") {
		m, ok := at.(map[string]any)
		if !ok || m[name] == nil {
			return errors.New("leads nowhere at " + name)
		}
		at = m[name]
	}
	return nil
}

func TestASchemaOnlyGrows(t *testing.T) {
	const old = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"}}}}}}`
	for fresh, broken := range map[string]bool{
		old: false,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"z":{"type":"string"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"},"d":{}}}}}}`: false,
		`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"}}}}}}`:                          true,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"}}}}}}`:                                               true,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"}}}}}}`:                             true,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"string"}}}}}}`:                               true,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`:                                                                                                                   true,
	} {
		wrong, err := Broken([]byte(old), []byte(fresh))
		if err != nil || (wrong != "") != broken {
			t.Errorf("%s: %q, %v", fresh, wrong, err)
		}
	}
}
