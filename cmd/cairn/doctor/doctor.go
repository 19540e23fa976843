// Package doctor checks everything that Cairn needs on a machine, and says how to mend what is missing. It
// changes nothing.
package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Finding is one check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"`
}

// Status is how a check ended.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warning"
	Bad  Status = "problem"
)

// Subject is what to look at.
type Subject struct {
	Data          string
	MinFree       uint64
	Listen        string
	Running       bool // a Cairn serves Data or is reached through the DSNs
	Serving       bool // and answers at Listen
	Embedded      bool // the broker and the database are (or would be) our own
	ReadDSN       string
	VaultDSN      string
	MasterKey     string
	MasterKeyFile string
	ModelURL      string
	ModelKey      string
	// Topics checks the topics on the brokers; nil: there are none to check yet.
	Topics func(context.Context) error
	// Vault checks that the master key opens the vault; nil: there is none to check yet.
	Vault func(context.Context) error
}

// Examine runs every check.
func Examine(ctx context.Context, s Subject) []Finding {
	findings := []Finding{system()}
	if s.Embedded {
		findings = append(findings, postgresPrograms(ctx)...)
		findings = append(findings, dataDir(s), space(s))
	}
	findings = append(findings, masterKey(s), listen(s))
	if s.Running {
		findings = append(findings, database(ctx, s.ReadDSN, migrations.Read), database(ctx, s.VaultDSN, migrations.Vault))
	}
	if s.Vault != nil {
		findings = append(findings, opens(ctx, s))
	}
	if s.Topics != nil {
		findings = append(findings, topics(ctx, s))
	}
	return append(findings, model(ctx, s))
}

func system() Finding {
	return Finding{"system", OK, fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()), ""}
}

func postgresPrograms(ctx context.Context) []Finding {
	const setup = "run deploy/setup.sh (make setup)"
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	sort.Strings(dirs)
	if len(dirs) == 0 {
		if path, err := exec.LookPath("postgres"); err == nil {
			dirs = []string{filepath.Dir(path)}
		}
	}
	if len(dirs) == 0 {
		return []Finding{{"postgres programs", Bad, "initdb and postgres were not found", setup}}
	}
	dir := dirs[len(dirs)-1]
	version, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output() //nolint:gosec // the path is from the list above
	if err != nil {
		return []Finding{{"postgres programs", Bad, fmt.Sprintf("%s/postgres does not run: %v", dir, err), setup}}
	}
	programs := Finding{"postgres programs", OK, strings.TrimSpace(string(version)) + " in " + dir, ""}
	major := strings.FieldsFunc(string(version), func(r rune) bool { return r < '0' || r > '9' })
	n := 0
	if len(major) > 0 {
		n, _ = strconv.Atoi(major[0]) // digits only
	}
	if n < 15 {
		programs.Status, programs.Mend = Bad, "PostgreSQL 15 or newer is needed: "+setup
	}
	vector := Finding{"pgvector", OK, "installed", ""}
	share, err := exec.CommandContext(ctx, filepath.Join(dir, "pg_config"), "--sharedir").Output() //nolint:gosec // see above
	if err != nil {
		vector = Finding{"pgvector", Warn, "pg_config does not run, so it can't be looked for", setup}
	} else if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(share)), "extension", "vector.control")); err != nil {
		vector = Finding{"pgvector", Bad, "the extension is missing", setup}
	}
	return []Finding{programs, vector}
}

func dataDir(s Subject) Finding {
	info, err := os.Stat(s.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Finding{"data directory", OK, s.Data + " will be made at the first start", ""}
	case err != nil:
		return Finding{"data directory", Bad, err.Error(), "choose another with CAIRN_DATA"}
	case !info.IsDir():
		return Finding{"data directory", Bad, s.Data + " is not a directory", "choose another with CAIRN_DATA"}
	}
	f, err := os.CreateTemp(s.Data, ".doctor-*")
	if err != nil {
		return Finding{"data directory", Bad, "can't be written: " + err.Error(), "give this account the right to write there, or choose another with CAIRN_DATA"}
	}
	f.Close()
	os.Remove(f.Name())
	if err := kafka.CheckFormat(filepath.Join(s.Data, "kafka")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		mend := "bring the file back from a backup"
		if errors.Is(err, kafka.ErrNewerData) {
			mend = "use the release that wrote it, or a newer one"
		}
		return Finding{"data directory", Bad, err.Error(), mend}
	}
	state := ", not running"
	if s.Running {
		state = ", in use by a running cairn"
	}
	if elsewhere, err := os.ReadFile(filepath.Join(s.Data, "postgres", "location")); err == nil {
		state += "; its Postgres lies in " + strings.TrimSpace(string(elsewhere))
	}
	return Finding{"data directory", OK, s.Data + state, ""}
}

func space(s Subject) Finding {
	dir := s.Data
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return Finding{"disk space", Warn, err.Error(), ""}
	}
	free := stat.Bavail * uint64(stat.Bsize)
	detail := fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))
	if free < s.MinFree {
		return Finding{"disk space", Bad, detail + fmt.Sprintf(", and commands are refused below %.1f GiB", float64(s.MinFree)/(1<<30)), "free space, or move the data directory to a larger disk"}
	}
	return Finding{"disk space", OK, detail, ""}
}

func masterKey(s Subject) Finding {
	text := s.MasterKey
	where := "CAIRN_MASTER_KEY"
	if text == "" {
		where = s.MasterKeyFile
		if where == "" {
			where = filepath.Join(s.Data, "master.key")
		}
		raw, err := os.ReadFile(where)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			if _, err := os.Stat(filepath.Join(s.Data, "postgres")); err == nil || !s.Embedded {
				return Finding{"master key", Bad, where + " is missing", "bring it back from its backup: sealed content can't be opened without it"}
			}
			return Finding{"master key", OK, where + " will be made at the first start", ""}
		}
		if err != nil {
			return Finding{"master key", Bad, err.Error(), "let this account read it"}
		}
		text = strings.TrimSpace(string(raw))
		if info, err := os.Stat(where); err == nil && info.Mode().Perm()&0o077 != 0 {
			return Finding{"master key", Warn, where + " can be read by other accounts", "chmod 600 " + where}
		}
	}
	if key, err := hex.DecodeString(text); err != nil || len(key) != 32 {
		return Finding{"master key", Bad, where + " does not hold 64 hex digits", "make one for a new installation with `openssl rand -hex 32`; bring an old one back from its backup"}
	}
	return Finding{"master key", OK, "from " + where + ". Keep a copy elsewhere: nothing opens the content without it", ""}
}

func listen(s Subject) Finding {
	if s.Serving {
		return Finding{"address", OK, s.Listen + ", serving", ""}
	}
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return Finding{"address", Bad, err.Error(), "end what uses it, or choose another with CAIRN_LISTEN"}
	}
	l.Close()
	return Finding{"address", OK, s.Listen + " is free", ""}
}

func database(ctx context.Context, dsn string, which migrations.Database) Finding {
	name := "database " + which.Name()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return Finding{name, Bad, err.Error(), "start Postgres, or correct CAIRN_DATABASE_URL and CAIRN_VAULT_URL"}
	}
	defer conn.Close(ctx)
	var version int64
	var server string
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0), current_setting('server_version') FROM cairn_migrations`).Scan(&version, &server); err != nil {
		return Finding{name, Bad, "its schema is missing: " + err.Error(), "run `cairn migrate`"}
	}
	return Finding{name, OK, fmt.Sprintf("PostgreSQL %s, schema %d", server, version), ""}
}

func opens(ctx context.Context, s Subject) Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.Vault(ctx); err != nil {
		return Finding{"vault", Bad, err.Error(), "bring the master key back from its backup, and see that the vault's database answers"}
	}
	return Finding{"vault", OK, "the master key opens it", ""}
}

func topics(ctx context.Context, s Subject) Finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.Topics(ctx); err != nil {
		return Finding{"topics", Bad, err.Error(), "start the brokers; topics are made by `cairn migrate`, and one with other settings needs `kafka-configs` or a new prefix"}
	}
	return Finding{"topics", OK, "as the settings say", ""}
}

func model(ctx context.Context, s Subject) Finding {
	if s.ModelURL == "" {
		return Finding{"model", OK, "the built-in offline model (set CAIRN_MODEL_URL for another)", ""}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.ModelURL, "/")+"/models", nil)
	if err != nil {
		return Finding{"model", Bad, err.Error(), "correct CAIRN_MODEL_URL"}
	}
	if s.ModelKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.ModelKey)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Finding{"model", Bad, "not reachable: " + err.Error(), "correct CAIRN_MODEL_URL, or start the model server"}
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Finding{"model", Bad, "refuses the key", "correct CAIRN_MODEL_KEY"}
	case http.StatusOK:
		return Finding{"model", OK, s.ModelURL, ""}
	default:
		return Finding{"model", Warn, fmt.Sprintf("%s answers, but its list of models with %s", s.ModelURL, resp.Status), ""}
	}
}
