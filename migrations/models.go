package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed models
var models embed.FS

// Model is the shape of the tables that a revision of a read model fills, in the sections tables, key and indexes; ok is
// false for one that has none.
func Model(projection string, revision int) (text string, ok bool, err error) {
	raw, err := models.ReadFile(fmt.Sprintf("models/%s.%d.sql", projection, revision))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("migrations: tables of %s: %w", projection, err)
	}
	return string(raw), true, nil
}
