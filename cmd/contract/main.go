// Command contract writes what the world may rely on, from the Go types: of the feeds a JSON Schema for each event type
// and major version, samples of each, and streams/asyncapi.yaml; of the device's socket handlers/live/asyncapi.yaml. A
// feed's schema only ever grows by optional fields: for anything else it begins the next major version, and a sample that
// was written is never changed. Run it at the module's root (make contract); it is no part of the shipped program.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cairnhq/cairn/domain/aggregates"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// run brings the files below a module's root up to date.
func run(root string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // source files like the others
			return err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil { //nolint:gosec // source files like the others
			return err
		}
	}
	return nil
}

// Files are the files that the contract consists of today, by their path below the module's root, given what lies
// there already.
func Files(root string) (map[string][]byte, error) {
	words, err := readWords(root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var types []eventType
	for _, a := range aggregates.All() {
		for _, k := range a.Events {
			e := eventType{Kind: k, Aggregate: a.Kind}
			if err := e.schema(root, words); err != nil {
				return nil, fmt.Errorf("schema of %s: %w", k.Name(), err)
			}
			files[e.schemaPath()] = e.Text
			types = append(types, e)
		}
	}
	for _, e := range types {
		if err := e.samples(root, words, files); err != nil {
			return nil, fmt.Errorf("samples of %s: %w", e.Kind.Name(), err)
		}
	}
	if files["streams/asyncapi.yaml"], err = asyncAPI(types); err != nil {
		return nil, err
	}
	if files["handlers/live/asyncapi.yaml"], err = socketAPI(types, words); err != nil {
		return nil, err
	}
	return files, nil
}
