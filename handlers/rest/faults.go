package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// saying is what the document says of a value whose pattern or format is wrong.
const saying = "x-says"

// fit names everything in a value that is not what a schema says. The words are ours: the validator's own
// would show the schema and what was sent.
func fit(schema *openapi3.Schema, value any, at string) []wrong {
	return faultsOf(schema.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest(),
		openapi3.WithStringFormatValidator("email", openapi3.NewCallbackValidator(email)),
		openapi3.WithStringFormatValidator("timezone", openapi3.NewCallbackValidator(timezone))), at)
}

func faultsOf(err error, at string) []wrong {
	// By type, not with errors.As: it would take the first of many.
	switch e := err.(type) {
	case nil:
		return nil
	case *openapi3.SchemaError:
		return faults(e, at)
	case openapi3.MultiError:
		var all []wrong
		for _, err := range e {
			all = append(all, faultsOf(err, at)...)
		}
		return all
	}
	return []wrong{{Pointer: at, Detail: "is not allowed"}}
}

func faults(e *openapi3.SchemaError, at string) []wrong {
	for _, key := range e.JSONPointer() {
		at += "/" + escape(key)
	}
	object, is := e.Value.(map[string]any)
	if e.SchemaField != "properties" || !is {
		return []wrong{{Pointer: at, Detail: says(e)}}
	}
	// The validator names the object, not the field in it that there should not be.
	var all []wrong
	for name := range object {
		if _, known := e.Schema.Properties[name]; !known {
			all = append(all, wrong{Pointer: at + "/" + escape(name), Detail: "unknown field"})
		}
	}
	return all
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
		switch {
		case schema.Max == nil:
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

// nuls are the texts with NUL characters, which Postgres can't store.
func nuls(value any, at string) []wrong {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, 0) {
			return []wrong{{Pointer: at, Detail: "has a NUL character"}}
		}
	case []any:
		var all []wrong
		for i, one := range v {
			all = append(all, nuls(one, at+"/"+strconv.Itoa(i))...)
		}
		return all
	case map[string]any:
		var all []wrong
		for name, one := range v {
			all = append(all, nuls(one, at+"/"+escape(name))...)
		}
		return all
	}
	return nil
}

// sorted are faults by where they are, each once.
func sorted(all []wrong) []wrong {
	slices.SortStableFunc(all, func(a, b wrong) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return slices.CompactFunc(all, func(a, b wrong) bool { return a.Pointer == b.Pointer })
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
