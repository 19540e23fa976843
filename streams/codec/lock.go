package codec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
)

const lockHead = "# Every shape that was ever stored, one a line. Written by \"go run ./streams/codec/wirelock\"; a stored\n" +
	"# shape never changes: raise the schema with an upcaster (domain.Was) instead.\n"

// Lock is the lock file's text after the shapes of the aggregates were added to locked, the text so far.
// It answers an error that names every shape that was edited, or whose line would be lost.
func Lock(locked []byte, aggregates ...domain.Aggregate) ([]byte, error) {
	lines := map[string]string{}
	scanner := bufio.NewScanner(bytes.NewReader(locked))
	for scanner.Scan() {
		if line := scanner.Text(); line != "" && line[0] != '#' {
			name, _, _ := strings.Cut(line, " {")
			lines[name] = line
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("codec: reading the lock file: %w", err)
	}
	newest := map[string]int{}
	var wrong []string
	for _, line := range shapes(aggregates) {
		name, _, _ := strings.Cut(line, " {")
		if old, ok := lines[name]; ok && old != line {
			wrong = append(wrong, fmt.Sprintf("the shape of %s was edited\n  was %s\n  is  %s", name, old, line))
		}
		lines[name] = line
		kind, schema := splitSchema(name)
		newest[kind] = schema
	}
	for name := range lines {
		kind, schema := splitSchema(name)
		if last, known := newest[kind]; !known || schema > last {
			wrong = append(wrong, fmt.Sprintf("%s was stored, and nothing reads it any more", name))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return nil, fmt.Errorf("codec: %s", strings.Join(wrong, "\n"))
	}
	all := make([]string, 0, len(lines))
	for _, line := range lines {
		all = append(all, line)
	}
	slices.Sort(all)
	return []byte(lockHead + strings.Join(all, "\n") + "\n"), nil
}

// splitSchema parts "event thread.opened/1".
func splitSchema(name string) (kind string, schema int) {
	kind, number, _ := strings.Cut(name, "/")
	_, _ = fmt.Sscan(number, &schema) // anything else is schema 0, which no kind has
	return kind, schema
}

func shapes(aggregates []domain.Aggregate) []string {
	var lines []string
	for _, a := range aggregates {
		for sort, kinds := range map[string][]domain.Kind{"event": a.Events, "command": a.Commands} {
			for _, k := range kinds {
				line := fmt.Sprintf("%s %s/%d %s", sort, k.Name(), k.Schema(), shape(k.Type(), nil))
				if i := k.SealedField(); i >= 0 {
					line += " sealed " + shape(k.Type().Field(i).Type, nil)
				}
				if k.Level() > 1 {
					line += fmt.Sprintf(" since %d", k.Level())
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// shape is a type as its JSON looks: names, whether they may be left out, and what they hold. Fields are
// sorted, since their order means nothing.
func shape(t reflect.Type, above []reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "json"
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case slices.Contains(above, t):
		return "same" // a type within itself
	}
	above = append(slices.Clone(above), t)
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem(), above) + " or null"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64"
		}
		return "[" + shape(t.Elem(), above) + "]"
	case reflect.Array:
		return fmt.Sprintf("[%d %s]", t.Len(), shape(t.Elem(), above))
	case reflect.Map:
		return "{*: " + shape(t.Elem(), above) + "}"
	case reflect.Struct:
		fields := members(t, above)
		slices.Sort(fields)
		return "{" + strings.Join(fields, ", ") + "}"
	default:
		return t.Kind().String()
	}
}

func members(t reflect.Type, above []reflect.Type) []string {
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			fields = append(fields, members(f.Type, above)...)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		for _, option := range strings.Split(options, ",") {
			switch option {
			case "omitempty", "omitzero":
				name += "?"
			case "string":
				name += " as text"
			}
		}
		fields = append(fields, name+": "+shape(f.Type, above))
	}
	return fields
}
