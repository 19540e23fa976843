package main

import (
	"encoding/json"
	"fmt"
	"slices"
)

// shape is the part of a JSON Schema that says what a consumer may rely on.
type shape struct {
	Type                 any              `json:"type"`
	Properties           map[string]shape `json:"properties"`
	Required             []string         `json:"required"`
	Items                *shape           `json:"items"`
	AdditionalProperties json.RawMessage  `json:"additionalProperties"`
}

// Broken says what a consumer of the old schema could trip over in the new one, or "" where the new one only adds
// optional fields.
func Broken(old, fresh []byte) (string, error) {
	var a, b shape
	if err := json.Unmarshal(old, &a); err != nil {
		return "", fmt.Errorf("the schema that is there: %w", err)
	}
	if err := json.Unmarshal(fresh, &b); err != nil {
		return "", err
	}
	return broken("", a, b), nil
}

func broken(at string, a, b shape) string {
	if fmt.Sprint(a.Type) != fmt.Sprint(b.Type) {
		return fmt.Sprintf("%s was %v and is %v", named(at), a.Type, b.Type)
	}
	for name, was := range a.Properties {
		is, there := b.Properties[name]
		if !there {
			return fmt.Sprintf("the field %s is gone", at+name)
		}
		if wrong := broken(at+name+".", was, is); wrong != "" {
			return wrong
		}
	}
	for _, name := range a.Required {
		if !slices.Contains(b.Required, name) {
			return fmt.Sprintf("the field %s may be missing now", at+name)
		}
	}
	for _, name := range b.Required {
		if !slices.Contains(a.Required, name) {
			return fmt.Sprintf("the field %s is required now", at+name)
		}
	}
	switch {
	case (a.Items == nil) != (b.Items == nil):
		return fmt.Sprintf("the elements of %s changed", named(at))
	case a.Items != nil:
		return broken(at+"[].", *a.Items, *b.Items)
	}
	return ""
}

func named(at string) string {
	if at == "" {
		return "the data"
	}
	return "the field " + at[:len(at)-1]
}
