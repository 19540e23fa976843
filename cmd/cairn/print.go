package main

import (
	"encoding/json"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// printJSON writes one object on a line, without escaping what HTML would need escaped.
func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printTable writes rows under a header, for people.
func printTable(out io.Writer, header []string, rows [][]any) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	head := make(table.Row, len(header))
	for i, name := range header {
		head[i] = name
	}
	t.AppendHeader(head)
	for _, row := range rows {
		t.AppendRow(row)
	}
	t.Render()
}
