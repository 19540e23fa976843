package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// saying is what the document says of a value whose pattern or format is wrong.
const saying = "x-says"

// mostFaults is how many faults a problem tells. What has more was not written by hand, and whoever sends it must not
// get back, nor make the server hold, many times what they sent.
const mostFaults = 100

// fit names what in a value is not as a schema says, all of it up to mostFaults. The words are ours: the
// validator's own would show the schema and what was sent.
func fit(schema *openapi3.Schema, value any, at string) []wrong {
	formats := []openapi3.SchemaValidationOption{
		openapi3.VisitAsRequest(),
		openapi3.WithStringFormatValidator("email", openapi3.NewCallbackValidator(email)),
		openapi3.WithStringFormatValidator("timezone", openapi3.NewCallbackValidator(timezone)),
	}
	// The first look stops at the first fault: the validator keeps kilobytes for each that it finds.
	first := schema.VisitJSON(value, formats...)
	if first == nil {
		return nil
	}
	f := faults{at: at}
	f.collect(schema.VisitJSON(part(schema, value), append(formats, openapi3.MultiErrors())...))
	if len(f.found) == 0 { // it lies behind the part
		f.collect(first)
	}
	return f.found
}

// part is as much of a value as can hold mostFaults faults: of a list its first elements, of an object what the
// schema names and some of what it does not.
func part(schema *openapi3.Schema, value any) any {
	switch v := value.(type) {
	case []any:
		if schema.Items == nil {
			return v
		}
		few := make([]any, min(len(v), mostFaults))
		for i := range few {
			few[i] = part(schema.Items.Value, v[i])
		}
		return few
	case map[string]any:
		few, unknown := map[string]any{}, 0
		for name, one := range v {
			if known, ok := schema.Properties[name]; ok {
				few[name] = part(known.Value, one)
			} else if unknown < mostFaults {
				few[name] = one
				unknown++
			}
		}
		return few
	}
	return value
}

// faults are what a validator found, in our words.
type faults struct {
	at      string          // where the value is
	found   []wrong         // mostFaults at most
	objects map[string]bool // whose unknown fields are named
}

func (f *faults) collect(err error) {
	// By type, not with errors.As: it would take the first of many.
	switch e := err.(type) {
	case nil:
	case *openapi3.SchemaError:
		f.one(e)
	case openapi3.MultiError:
		for _, err := range e {
			f.collect(err)
		}
	default:
		f.add(f.at, "is not allowed")
	}
}

func (f *faults) add(pointer, detail string) {
	if len(f.found) < mostFaults {
		f.found = append(f.found, wrong{Pointer: pointer, Detail: detail})
	}
}

func (f *faults) one(e *openapi3.SchemaError) {
	at := f.at
	for _, key := range e.JSONPointer() {
		at += "/" + escape(key)
	}
	object, is := e.Value.(map[string]any)
	if e.SchemaField != "properties" || !is {
		f.add(at, says(e))
		return
	}
	// The validator names the object, once for each field in it that there should not be, and never the field.
	if f.objects[at] {
		return
	}
	if f.objects == nil {
		f.objects = map[string]bool{}
	}
	f.objects[at] = true
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, known := e.Schema.Properties[name]; !known {
			f.add(at+"/"+escape(name), "unknown field")
		}
	}
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// says is what is wrong with a value, in words that do not repeat it.
func says(e *openapi3.SchemaError) string {
	schema := e.Schema
	switch e.SchemaField {
	case "type", "nullable":
		return "expected " + wanted(schema) + ", got " + named(e.Value)
	case "required":
		return "is missing"
	case "enum":
		return "is none of " + words(schema.Enum)
	case "minLength", "maxLength":
		if schema.MaxLength == nil {
			return "is empty"
		}
		return fmt.Sprintf("must have between %d and %d characters", schema.MinLength, *schema.MaxLength)
	case "minItems", "maxItems":
		return "has too few or too many elements"
	case "minimum", "maximum":
		beyond := schema.Max != nil && *schema.Max >= 1<<53 // it bounds what fits into a number, and is none that can be written as one
		switch {
		case beyond && e.SchemaField == "maximum":
			return "is too large"
		case schema.Max == nil || beyond:
			return "is at least " + number(*schema.Min)
		case schema.Min == nil || *schema.Min == 0:
			return "is at most " + number(*schema.Max)
		}
		return "is between " + number(*schema.Min) + " and " + number(*schema.Max)
	case "pattern", "format":
		if text, ok := schema.Extensions[saying].(string); ok {
			return text
		}
	}
	return "is not allowed"
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func words(enum []any) string {
	var all []string
	for _, one := range enum {
		if text, ok := one.(string); ok && text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// wanted is what a schema asks for.
func wanted(schema *openapi3.Schema) string {
	for _, one := range []struct{ kind, name string }{
		{openapi3.TypeObject, "an object"}, {openapi3.TypeArray, "a list"}, {openapi3.TypeString, "a text"},
		{openapi3.TypeInteger, "a whole number"}, {openapi3.TypeNumber, "a number"}, {openapi3.TypeBoolean, "true or false"},
	} {
		if schema.Type.Includes(one.kind) {
			return one.name
		}
	}
	return "something else"
}

func named(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}

// nuls are the texts with NUL characters, which Postgres can't store: mostFaults of them at most.
func nuls(value any, at string) []wrong {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return []wrong{{Pointer: at, Detail: "has a NUL character"}}
		}
	case []any:
		var all []wrong
		for i := 0; i < len(v) && len(all) < mostFaults; i++ {
			all = append(all, nuls(v[i], at+"/"+strconv.Itoa(i))...)
		}
		return all
	case map[string]any:
		var all []wrong
		for name, one := range v {
			if len(all) < mostFaults {
				all = append(all, nuls(one, at+"/"+escape(name))...)
			}
		}
		return all
	}
	return nil
}

// sorted are faults by where they are, one at each place, and mostFaults at most.
func sorted(all []wrong) []wrong {
	slices.SortStableFunc(all, func(a, b wrong) int { return cmp.Compare(a.Pointer, b.Pointer) })
	all = slices.CompactFunc(all, func(a, b wrong) bool { return a.Pointer == b.Pointer })
	return all[:min(len(all), mostFaults)]
}

// The formats of the document that are more than words.

const maxEmail = 254 // bytes

func email(text string) error {
	text = strings.TrimSpace(text)
	if address, err := mail.ParseAddress(text); err != nil || address.Address != text || len(text) > maxEmail {
		return errors.New("no e-mail address")
	}
	return nil
}

func timezone(text string) error {
	if _, err := time.LoadLocation(text); err != nil || text == "" || text == "Local" {
		return errors.New("no IANA time zone")
	}
	return nil
}
