package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TokenFile keeps a session in a file that only its owner may read.
type TokenFile string

// Load is the session in the file; ok is false where there is none.
func (f TokenFile) Load() (t Tokens, ok bool, err error) {
	raw, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return t, false, nil
	}
	if err != nil {
		return t, false, fmt.Errorf("api: tokens: %w", err)
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, false, fmt.Errorf("api: tokens in %s: %w", f, err)
	}
	return t, t.Refresh != "", nil
}

// Save replaces the file at once: a process that dies meanwhile leaves the old session or the new one.
func (f TokenFile) Save(t Tokens) error {
	raw, err := json.Marshal(t) //nolint:gosec // tokens are what the file is for
	if err != nil {
		return fmt.Errorf("api: tokens: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(string(f)), ".tokens-*") // 0600
	if err != nil {
		return fmt.Errorf("api: tokens: %w", err)
	}
	_, err = temporary.Write(raw)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), string(f))
	}
	if err != nil {
		return fmt.Errorf("api: tokens: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
