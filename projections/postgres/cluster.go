package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Cluster is a running private cluster. Its DSNs stay valid across restarts of the server.
type Cluster struct {
	cfg    Config
	owner  owner
	data   string // PGDATA
	socket string // directory of the unix socket
	port   int
	lock   *os.File

	mu     sync.Mutex
	server *server // the one that runs, or the last one
	closed bool
}

// Start makes the cluster if it does not exist, ends what an earlier process left behind, starts the
// server and creates the databases. It returns when the server takes connections. The caller must Stop it;
// Run supervises it meanwhile.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	o, err := chooseOwner()
	if err != nil {
		return nil, err
	}
	home, moved, err := o.home(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if moved {
		cfg.Log.Info("running as root, and the user that Postgres runs as can't enter the data directory: its files are kept elsewhere and belong to the data all the same (back up both)",
			"dir", cfg.Dir, "files", home)
	}
	held, err := lock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, owner: o, data: filepath.Join(home, "data"), lock: held}
	if err := c.start(ctx, home); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, home string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := c.owner.give(home, 0o700); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := c.initialise(ctx, home); err != nil {
		return err
	}
	if err := c.endOrphan(ctx); err != nil {
		return err
	}
	if err := c.chooseSocket(home); err != nil {
		return err
	}
	if err := c.launch(ctx); err != nil {
		return err
	}
	return c.createDatabases(ctx)
}

// initialise runs initdb into a folder beside the final one and renames it, so that a half-made cluster is
// never taken for one.
func (c *Cluster) initialise(ctx context.Context, home string) error {
	if _, err := os.Stat(filepath.Join(c.data, "PG_VERSION")); err == nil {
		return nil
	}
	c.cfg.Log.Info("making a postgres cluster", "dir", c.data)
	fresh := filepath.Join(home, "fresh")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	// For connections of an operator that do not come over the socket.
	password := filepath.Join(home, "password")
	if err := os.WriteFile(password, []byte(rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := c.owner.give(password, 0o600); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	args := []string{
		"--pgdata=" + fresh, "--username=cairn", "--encoding=UTF8", "--no-locale", "--data-checksums",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=" + password,
	}
	if c.cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.cfg.BinDir, "initdb"), args...)
	cmd.Dir = home
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(c.owner)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("postgres: initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// environment is ours without what would steer Postgres elsewhere.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "PG") || strings.HasPrefix(pair, "LC_") || strings.HasPrefix(pair, "TZ=") || strings.HasPrefix(pair, "LANG") {
			continue
		}
		env = append(env, pair)
	}
	return env
}

// chooseSocket takes a free port, whose number also names the socket's file. A socket's path is limited to
// about 100 bytes: where the home is too deep the socket lies in the system's folder for temporary files.
func (c *Cluster) chooseSocket(home string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("postgres: no free port: %w", err)
	}
	c.port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if c.socket != "" {
		return nil
	}
	c.socket = filepath.Join(home, "run")
	if len(c.socket) > 80 {
		if c.socket, err = os.MkdirTemp("", "cairn-pg-"); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
	}
	if err := os.MkdirAll(c.socket, 0o700); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := c.owner.give(c.socket, 0o700); err != nil { // who reaches the socket is trusted
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// DSN is how to reach a database of the cluster, over its socket.
func (c *Cluster) DSN(database string) string {
	return SocketDSN(c.socket, c.port, database)
}

// SocketDSN is a connection text for a server of ours by its socket's directory and port.
func SocketDSN(socket string, port int, database string) string {
	query := url.Values{"host": {socket}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}
	return "postgres://cairn@/" + database + "?" + query.Encode()
}

func (c *Cluster) createDatabases(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("postgres: connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, name := range c.cfg.Databases {
		var there bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
			return fmt.Errorf("postgres: look for database %s: %w", name, err)
		}
		if there {
			continue
		}
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("postgres: create database %s: %w", name, err)
		}
	}
	return nil
}
