package holdings

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain"
)

// File is one file of an export.
type File struct {
	Holding
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// Manifest says what an export holds. It is written last: a folder without it is no export.
type Manifest struct {
	Scope domain.Scope `json:"scope"`
	At    time.Time    `json:"at"`
	// Opened says whether content was opened.
	Opened bool   `json:"opened"`
	Files  []File `json:"files"`
	// Left is what was left out, on purpose.
	Left []string `json:"left_out"`
}

// ManifestName is the manifest's file.
const ManifestName = "manifest.json"

// ErrNotEmpty is a folder that has something in it already.
var ErrNotEmpty = errors.New("it is not empty: name a folder that is not there yet")

// Export writes everything that is held of a scope into a folder that only its owner may read: one file a place, one object
// a line.
func Export(ctx context.Context, s Source, scope domain.Scope, dir string, left []string, now time.Time) (Manifest, error) {
	m := Manifest{Scope: scope, At: now.UTC(), Opened: s.Keys != nil, Left: left}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, fmt.Errorf("make the folder: %w", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return m, fmt.Errorf("%s: %w", dir, errors.Join(err, ErrNotEmpty))
	}
	places, done, err := s.places(ctx, scope)
	if err != nil {
		return m, err
	}
	defer done()
	for _, p := range places {
		s.tell(Progress{Place: p.name})
		f, err := p.file(ctx, dir)
		if err != nil {
			return m, fmt.Errorf("%s %s: %w", p.in, p.name, err)
		}
		m.Files = append(m.Files, f)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	return m, os.WriteFile(filepath.Join(dir, ManifestName), append(text, '\n'), 0o600)
}

// file writes what a place holds.
func (p place) file(ctx context.Context, dir string) (File, error) {
	f := File{File: filepath.Join(map[string]string{InTable: "tables", InVault: "vault", InTopic: "topics", InLog: "log"}[p.in], p.name+".jsonl")}
	path := filepath.Join(dir, f.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return f, err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return f, err
	}
	sum, buffer := sha256.New(), bufio.NewWriterSize(out, 1<<16)
	f.Holding, err = p.read(ctx, func(line []byte) error {
		sum.Write(line)
		_, err := buffer.Write(line)
		return err
	})
	f.In, f.Name, f.SHA256 = p.in, p.name, hex.EncodeToString(sum.Sum(nil))
	return f, errors.Join(err, buffer.Flush(), out.Close())
}

// text is bytes of a header as a text.
func text(b []byte) string {
	if utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool { return r < ' ' }) {
		return string(b)
	}
	return hex.EncodeToString(b)
}
