package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/cmd/chaos/proxy"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
)

// Database is a private Postgres cluster behind a proxy, which the processes reach it through.
type Database struct {
	Proxy *proxy.Commits

	dir string
	log *slog.Logger

	mu      sync.Mutex
	cluster *postgres.Cluster
	stop    context.CancelFunc
	done    chan struct{}
}

// openDatabase starts a cluster in dir.
func openDatabase(ctx context.Context, dir string, log *slog.Logger) (*Database, error) {
	d := &Database{dir: dir, log: log}
	var err error
	if d.Proxy, err = proxy.ListenCommits(proxy.Target{}); err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		d.Proxy.Close()
		return nil, err
	}
	return d, nil
}

// start starts the server, supervises it, and points the proxy to it.
func (d *Database) start(ctx context.Context) error {
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: d.dir, Log: d.log, Settings: map[string]string{
		// Processes die here, machines do not: what the kernel was given stays.
		"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB", "max_connections": "600",
	}})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cluster.Run(run); err != nil {
			d.log.Error("postgres is not supervised any more", "error", err)
		}
	}()
	d.mu.Lock()
	d.cluster, d.stop, d.done = cluster, stop, done
	d.mu.Unlock()
	socket, port, err := where(cluster)
	if err != nil {
		return err
	}
	d.Proxy.Point(proxy.Target{Network: "unix", Address: filepath.Join(socket, ".s.PGSQL."+port)})
	return nil
}

func where(cluster *postgres.Cluster) (socket, port string, err error) {
	u, err := url.Parse(cluster.DSN("postgres"))
	if err != nil {
		return "", "", err
	}
	return u.Query().Get("host"), u.Query().Get("port"), nil
}

// DSN is how to reach a database through the proxy, with all its faults.
func (d *Database) DSN(which migrations.Database) string {
	return "postgres://cairn@" + d.Proxy.Addr() + "/" + which.Name() + "?sslmode=disable"
}

// Direct is how to reach a database past the proxy, for who looks on. It holds until the server is restored.
func (d *Database) Direct(database string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster.DSN(database)
}

// Exec runs a statement in a database, past the proxy.
func (d *Database) Exec(ctx context.Context, which migrations.Database, statement string, args ...any) (int64, error) {
	conn, err := pgx.Connect(ctx, d.Direct(which.Name()))
	if err != nil {
		return 0, err
	}
	tag, err := conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// Kill ends the server at once. It is started again by its supervisor; Up waits for it.
func (d *Database) Kill() error {
	pid, err := d.postmaster()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Up waits until the server answers.
func (d *Database) Up(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := d.Exec(ctx, migrations.Read, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres does not come back: %w", err)
		case <-tick.C:
		}
	}
}

// Restart stops the server in good order and starts it again; meanwhile does something with its files.
func (d *Database) Restart(ctx context.Context, meanwhile func(data string) error) error {
	data := filepath.Join(d.home(), "data")
	if err := d.halt(); err != nil {
		return err
	}
	if meanwhile != nil {
		if err := meanwhile(data); err != nil {
			return err
		}
	}
	return d.start(ctx)
}

// Save keeps the cluster's files as they are now, as a back-up that Restore goes back to. The server is away for a moment.
func (d *Database) Save(ctx context.Context) error {
	return d.Restart(ctx, func(data string) error { return copyTree(data, data+".saved") })
}

// Restore puts the cluster's files back as they were at Save, once.
func (d *Database) Restore(ctx context.Context) error {
	return d.Restart(ctx, func(data string) error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		return os.Rename(data+".saved", data)
	})
}

// copyTree makes to a copy of from, owners included.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

func (d *Database) halt() error {
	d.mu.Lock()
	cluster, stop, done := d.cluster, d.stop, d.done
	d.mu.Unlock()
	err := cluster.Stop()
	stop()
	<-done
	return err
}

// close ends the server and removes what lies outside dir.
func (d *Database) close() error {
	home := d.home()
	err := d.halt()
	d.Proxy.Close()
	return errors.Join(err, os.RemoveAll(home))
}

// home is where the server's files lie: elsewhere, if its user can't reach dir.
func (d *Database) home() string {
	if text, err := os.ReadFile(filepath.Join(d.dir, "location")); err == nil {
		return strings.TrimSpace(string(text))
	}
	return filepath.Join(d.dir, "server")
}

func (d *Database) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(d.home(), "data", "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("find the postmaster: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}
