package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairnhq/cairn/projections/vault"
)

// Format is the number of the form of back-ups that this program writes. It reads all up to it.
const Format = 1

const manifestFile = "manifest.json"

// Manifest says what a back-up holds. It is written last: a folder without one is no back-up.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that made it
	MadeAt  time.Time `json:"made_at"`

	Prefix     string `json:"prefix"`
	Partitions int32  `json:"partitions"`
	Era        int    `json:"era"`

	Log      []Records `json:"log"`
	Commands []Records `json:"commands"` // not decided yet
	Parked   []Records `json:"parked"`

	Vault        []VaultTable `json:"vault"`
	VaultVersion int64        `json:"vault_version"` // of its migrations
	Seal         vault.Seal   `json:"vault_seal"`
	Voids        []vault.Void `json:"voids"`
}

// VaultTable is a file with the rows of a table.
type VaultTable struct {
	vault.Table
	Piece
}

// Bytes is the size of all files together.
func (m Manifest) Bytes() (n int64) {
	for _, p := range m.pieces() {
		n += p.Bytes
	}
	return n
}

func (m Manifest) pieces() (all []Piece) {
	for _, some := range [][]Records{m.Log, m.Commands, m.Parked} {
		for _, r := range some {
			all = append(all, r.Piece)
		}
	}
	for _, t := range m.Vault {
		all = append(all, t.Piece)
	}
	return all
}

// ErrNoBackup is a folder that holds no whole back-up.
var ErrNoBackup = errors.New("this is no back-up, or one that was broken off")

// ErrNewer is a back-up that a newer program made.
var ErrNewer = errors.New("a newer cairn made this back-up")

// Read is the manifest of a back-up. Errors: ErrNoBackup, ErrNewer.
func Read(dir string) (Manifest, error) {
	var m Manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s has no %s: %w", dir, manifestFile, ErrNoBackup)
	}
	if err != nil {
		return m, fmt.Errorf("back-up: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s of %s can't be read (%w): %w", manifestFile, dir, err, ErrNoBackup)
	}
	if m.Format > Format {
		return m, fmt.Errorf("format %d, this program reads up to %d: %w", m.Format, Format, ErrNewer)
	}
	for _, p := range m.pieces() {
		if !filepath.IsLocal(filepath.FromSlash(p.File)) {
			return m, fmt.Errorf("%s names a file outside the back-up: %q", manifestFile, p.File)
		}
	}
	if int(m.Partitions) != len(m.Log) || m.Partitions < 1 {
		return m, fmt.Errorf("%s has %d partitions and %d files of the log: %w", manifestFile, m.Partitions, len(m.Log), ErrNoBackup)
	}
	if err := m.whole(); err != nil {
		return m, fmt.Errorf("%s of %s is incomplete: %w: %w", manifestFile, dir, err, ErrNoBackup)
	}
	return m, nil
}

// vaultTables are those that every version of the vault has.
var vaultTables = []string{"vault", "scope_keys", "data_keys", "credentials", "refresh_families", "tickets", "voids", "policy_begins"}

// whole makes sure that nothing is missing of what Take writes.
func (m Manifest) whole() error {
	for what, some := range map[string][]Records{"log": m.Log, "commands": m.Commands, "parked": m.Parked} {
		if len(some) != int(m.Partitions) {
			return fmt.Errorf("it has %d partitions and %d files of %s", m.Partitions, len(some), what)
		}
		for p, r := range some {
			if int(r.Partition) != p {
				return fmt.Errorf("file %d of %s is of partition %d", p, what, r.Partition)
			}
		}
	}
	for _, name := range vaultTables {
		if !slices.ContainsFunc(m.Vault, func(t VaultTable) bool { return t.Name == name }) {
			return fmt.Errorf("table %s of the vault is not in it", name)
		}
	}
	return nil
}

// write leaves the whole manifest or none.
func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, manifestFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
