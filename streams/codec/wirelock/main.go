// Command wirelock writes streams/codec/wire.lock, the list of every stored shape, from the Go types. It adds
// lines and never changes one. Run it at the module's root.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
)

const path = "streams/codec/wire.lock"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "wirelock:", err)
		os.Exit(1)
	}
}

func run() error {
	locked, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := codec.Lock(locked, aggregates.All()...)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // a source file like the others
}
