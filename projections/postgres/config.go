package postgres

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/cairnhq/cairn/migrations"
)

// Config says where a cluster lives. Only Dir is needed.
type Config struct {
	// Dir holds the cluster and nothing else. It is made if it does not exist.
	Dir string
	// Log gets what the launcher does; Postgres itself writes to Dir/postgres.log.
	Log *slog.Logger
	// BinDir holds initdb and postgres. Empty: the newest of the usual places, else the search path.
	BinDir string
	// Databases are made if missing. Empty: those of the migrations package.
	Databases []string
	// Settings go over ours, such as "fsync": "off" in tests.
	Settings map[string]string
	// StartTimeout bounds a start, recovery included. Zero: 2 minutes.
	StartTimeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("postgres: Dir is empty")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 2 * time.Minute
	}
	if len(c.Databases) == 0 {
		c.Databases = []string{migrations.Read.Name(), migrations.Vault.Name()}
	}
	if c.BinDir == "" {
		c.BinDir, err = findBinaries()
	}
	return c, err
}

// settings are what an embedded cluster needs: durable, small, no replication, times in UTC.
func (c Config) settings() []string {
	all := map[string]string{
		"fsync":                           "on",
		"synchronous_commit":              "on",
		"full_page_writes":                "on",
		"wal_level":                       "minimal", // nobody replicates from here; bulk loads skip the log
		"max_wal_senders":                 "0",
		"max_wal_size":                    "1GB",
		"checkpoint_timeout":              "15min",
		"max_connections":                 "200",
		"shared_buffers":                  "128MB",
		"max_parallel_workers_per_gather": "0", // short queries; and /dev/shm is small in containers
		"jit":                             "off",
		"timezone":                        "UTC",
		"log_timezone":                    "UTC",
		"log_min_messages":                "warning",
		"log_line_prefix":                 "%m [%p] ",
		"password_encryption":             "scram-sha-256",
		"restart_after_crash":             "on",
	}
	for name, value := range c.Settings {
		all[name] = value
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	args := make([]string, 0, 2*len(names))
	for _, name := range names {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// ErrNoPostgres says that the server's programs were not found.
var ErrNoPostgres = errors.New("postgres: initdb and postgres were not found: install PostgreSQL 15 or newer")

func findBinaries() (string, error) {
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
	} {
		matches, _ := filepath.Glob(pattern)
		for _, dir := range matches {
			if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
				found = append(found, dir)
			}
		}
	}
	if len(found) > 0 {
		sort.Slice(found, func(i, j int) bool {
			return len(found[i]) < len(found[j]) || len(found[i]) == len(found[j]) && found[i] < found[j]
		})
		return found[len(found)-1], nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", ErrNoPostgres
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
