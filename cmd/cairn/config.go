package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

// configCmd lists the settings. Secrets are shown as set or not set.
type configCmd struct{}

type setting struct {
	Env     string `json:"env"`
	Value   string `json:"value"`
	Default string `json:"default,omitempty"`
	Help    string `json:"help"`
}

// Run prints them.
func (configCmd) Run(config *app.Config, c *console) error {
	var settings []setting
	value := reflect.ValueOf(*config)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		env := field.Tag.Get("env")
		if env == "" {
			continue
		}
		settings = append(settings, setting{
			Env: env, Value: shown(env, value.Field(i)), Default: field.Tag.Get("default"), Help: field.Tag.Get("help"),
		})
	}
	if c.json {
		return printJSON(c.out, map[string]any{"settings": settings})
	}
	rows := make([][]any, len(settings))
	for i, s := range settings {
		rows[i] = []any{s.Env, s.Value, s.Help}
	}
	printTable(c.out, []string{"Variable", "Value", "What for"}, rows)
	return nil
}

// shown is a value without secrets: keys, and the passwords in URLs.
func shown(env string, v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	if v.Kind() == reflect.Slice {
		text = strings.Trim(text, "[]")
	}
	secret := env == "CAIRN_MASTER_KEY" || env == "CAIRN_MODEL_KEY" ||
		strings.HasSuffix(env, "_URL") && strings.Contains(text, "@")
	if secret && text != "" {
		return "(set)"
	}
	return text
}
