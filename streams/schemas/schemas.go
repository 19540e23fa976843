// Package schemas holds the public JSON Schema of every event type that the feeds carry, one file for each major
// version. The files are generated from the Go types (make contract) and only ever grow by optional fields; it
// decides nothing about what is published.
package schemas

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed */v*.json
var files embed.FS

// base is where the files can be read by whoever meets a ce_dataschema.
const base = "https://raw.githubusercontent.com/cairnhq/cairn/main/streams/schemas/"

// URI names the schema of a type's major version.
func URI(typ string, major int) string { return fmt.Sprintf("%s%s/v%d.json", base, typ, major) }

// Newest is the major version in which events of a type are published: 1 where the type has no file yet, since that is
// what its first one will be called.
func Newest(typ string) int {
	entries, _ := files.ReadDir(typ)
	major := 1
	for _, e := range entries {
		major = max(major, number(e.Name()))
	}
	return major
}

// Read is a schema's text.
func Read(typ string, major int) ([]byte, error) {
	return files.ReadFile(path.Join(typ, fmt.Sprintf("v%d.json", major)))
}

// Types are the types that have a schema, in the order of their names.
func Types() []string {
	entries, _ := fs.ReadDir(files, ".")
	types := make([]string, 0, len(entries))
	for _, e := range entries {
		types = append(types, e.Name())
	}
	slices.Sort(types)
	return types
}

// number is that of "v3.json", or zero.
func number(name string) int {
	text, ok := strings.CutSuffix(strings.TrimPrefix(name, "v"), ".json")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 {
		return 0
	}
	return n
}
