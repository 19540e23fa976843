package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/schemas"
)

// eventType is an event type and its public schema.
type eventType struct {
	Kind      domain.Kind
	Aggregate string
	Major     int
	Text      []byte
	About     string
	Sealed    bool
}

// Name is the CloudEvents type.
func (e eventType) Name() string { return fmt.Sprintf("%s.v%d", e.Kind.Name(), e.Major) }

func (e eventType) schemaPath() string {
	return fmt.Sprintf("streams/schemas/%s/v%d.json", e.Kind.Name(), e.Major)
}

// schema finds out the major version and writes its text.
func (e *eventType) schema(root string, words *words) error {
	e.Sealed = e.Kind.SealedField() >= 0
	for e.Major = 1; ; e.Major++ {
		_, err := os.Stat(filepath.Join(root, fmt.Sprintf("streams/schemas/%s/v%d.json", e.Kind.Name(), e.Major+1)))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := e.reflect(words); err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(root, e.schemaPath()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	broken, err := Broken(old, e.Text)
	if err != nil || broken == "" {
		return err
	}
	fmt.Fprintf(os.Stderr, "contract: %s: %s, so v%d begins\n", e.Kind.Name(), broken, e.Major+1)
	e.Major++
	return e.reflect(words)
}

func (e *eventType) reflect(words *words) error {
	r := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: true,
		CommentMap: words.comments, Mapper: words.mapped,
	}
	s := r.ReflectFromType(e.Kind.Type())
	s.ID = jsonschema.ID(schemas.URI(e.Kind.Name(), e.Major))
	s.Title = e.Name()
	e.About = s.Description
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	e.Text = b.Bytes()
	return nil
}

// words are what the sources say beside the types: comments, and the constants of string types.
type words struct {
	comments map[string]string
	values   map[string][]any // by package path and type
}

// mapped is the schema of types that reflection would not describe well. The constants of a string type are examples
// and no enumeration: a later release may add to them.
func (w *words) mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "nanoseconds"}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{}
	}
	if values := w.values[t.PkgPath()+"."+t.Name()]; t.Kind() == reflect.String && len(values) > 0 {
		return &jsonschema.Schema{Type: "string", Examples: values}
	}
	return nil
}
