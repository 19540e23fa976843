package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/lifeline"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/streams/kafka"
)

// runtime is what a running `cairn dev` says of itself in its data directory, so that other commands on the
// machine find its brokers and databases. It holds no secret: the databases ask for their own password file.
type runtime struct {
	PID         int      `json:"pid"`
	URL         string   `json:"url"`
	AdminURL    string   `json:"admin_url,omitempty"`
	Brokers     []string `json:"brokers"`
	LiveBrokers []string `json:"live_brokers"`
	DatabaseURL string   `json:"database_url"`
	VaultURL    string   `json:"vault_url"`
	// The topics it runs on, whatever the settings of who asks say.
	Era        int    `json:"era"`
	Prefix     string `json:"prefix"`
	Partitions int32  `json:"partitions"`
}

func runtimePath(data string) string { return filepath.Join(data, "runtime.json") }

func (r runtime) write(data string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := runtimePath(data)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// ErrNotRunning says that no `cairn dev` serves the data directory and no brokers are configured.
var ErrNotRunning = errors.New("nothing is running here: start `cairn dev`, or set CAIRN_BROKERS, CAIRN_DATABASE_URL and CAIRN_VAULT_URL")

func (c Config) notRunning() error {
	return fmt.Errorf("%w (the data directory looked in is %s; CAIRN_DATA or --data names another)", ErrNotRunning, c.Data)
}

// Attach fills what a command needs to reach a running Cairn: from the configuration, else from the
// data directory of a running `cairn dev`.
func (c Config) Attach() (Config, string, error) {
	url := "http://" + c.Listen
	if len(c.Brokers) > 0 && c.DatabaseURL != "" {
		return c, url, nil
	}
	text, err := os.ReadFile(runtimePath(c.Data))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return c, "", c.notRunning()
	}
	if err != nil {
		return c, "", fmt.Errorf("read what is running: %w", err)
	}
	var r runtime
	if err := json.Unmarshal(text, &r); err != nil {
		return c, "", fmt.Errorf("%s is damaged (%w): stop and start `cairn dev`", runtimePath(c.Data), err)
	}
	if c.MasterKey == "" && c.MasterKeyFile == "" {
		c.MasterKeyFile = filepath.Join(c.Data, "master.key")
	}
	if !anyListens(r.Brokers) {
		return c, "", c.notRunning() // it was killed, and could not tidy up
	}
	c.Brokers, c.LiveBrokers, c.DatabaseURL, c.VaultURL = r.Brokers, r.LiveBrokers, r.DatabaseURL, r.VaultURL
	c.Replication, c.TopicsFile = 1, ""
	c.Era, c.TopicPrefix, c.Partitions = r.Era, r.Prefix, r.Partitions
	return c, r.URL, nil
}

// anyListens reports whether something takes connections at one of the addresses.
func anyListens(addrs []string) bool {
	for _, addr := range addrs {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			conn.Close() //nolint:errcheck,gosec // nothing was sent
			return true
		}
	}
	return false
}

// infra are the brokers and databases that a process works with.
type infra struct {
	kafka    kafka.Config
	embedded *kafka.Embedded // nil on Kafka
	read     *pgxpool.Pool
	vault    *pgxpool.Pool
	readDSN  string
	vaultDSN string
	master   []byte
}

// topics are those of the topics file, with what the configuration says.
func (c Config) topics() (kafka.Topics, error) {
	topics := kafka.KafkaTopics()
	if c.Embedded() {
		topics = kafka.EmbeddedTopics()
	} else if c.Replication > 0 && c.Replication != topics.Replication {
		topics.Replication, topics.InSync = c.Replication, 0 // one less than the replicas
	}
	if c.Partitions > 0 {
		topics.Partitions = c.Partitions
	}
	topics.Era = c.Era
	topics.Prefix = c.TopicPrefix
	if c.TopicsFile == "" {
		return topics, nil
	}
	file, err := os.Open(c.TopicsFile)
	if err != nil {
		return topics, fmt.Errorf("open the topics file: %w", err)
	}
	defer file.Close()
	return kafka.ReadTopics(file, topics)
}

// openBroker starts or reaches the brokers. An embedded one claims the data directory.
func (c Config) openBroker(life *lifecycle, log *slog.Logger) (*infra, error) {
	logged, err := c.kafka()
	if err != nil {
		return nil, err
	}
	logged.Log = quiet(log)
	in := &infra{kafka: logged}
	if !c.Embedded() {
		return in, nil
	}
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	return in, c.startBroker(in, life, log)
}

// openDatabases starts or reaches the databases, and brings their schemas up to date.
func (c Config) openDatabases(ctx context.Context, in *infra, life *lifecycle, log *slog.Logger) error {
	vaultExists := false
	if c.Embedded() {
		_, err := os.Stat(filepath.Join(c.Data, "postgres"))
		vaultExists = err == nil
	}
	var err error
	if in.master, err = c.master(vaultExists); err != nil {
		return err
	}
	in.readDSN, in.vaultDSN = c.DatabaseURL, c.VaultURL
	if c.DatabaseURL == "" {
		if err := c.startPostgres(ctx, in, life, log); err != nil {
			return err
		}
	}
	return in.connect(ctx, life, log)
}

var errBroker = errors.New("the broker can't write its data, and nothing more is acknowledged")

func (c Config) startBroker(in *infra, life *lifecycle, log *slog.Logger) error {
	var broken atomic.Bool
	embedded, err := kafka.StartEmbedded(kafka.EmbeddedConfig{
		Dir: filepath.Join(c.Data, "kafka"), Sync: !c.NoSync, MinFree: c.MinFree, Log: log,
		Fatal: func(err error) {
			broken.Store(true)
			life.breakOff(fmt.Errorf("%w: %w", errBroker, err))
		},
	})
	if err != nil {
		return fmt.Errorf("start the embedded broker: %w", err)
	}
	in.embedded = embedded
	in.kafka.Seeds, in.kafka.LiveSeeds = embedded.Seeds(), embedded.LiveSeeds()
	life.closing("broker", func() {
		if broken.Load() {
			return // closing it would let it acknowledge what it did not keep; it ends with the process
		}
		if err := embedded.Close(); err != nil {
			log.Error("close the broker", "error", err)
		}
	})
	return nil
}

func (c Config) startPostgres(ctx context.Context, in *infra, life *lifecycle, log *slog.Logger) error {
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(c.Data, "postgres"), Log: log})
	if err != nil {
		return fmt.Errorf("start the embedded database: %w", err)
	}
	in.readDSN, in.vaultDSN = cluster.DSN(migrations.Read.Name()), cluster.DSN(migrations.Vault.Name())
	life.startFor("postgres", stopPostgresWithin, func(ctx context.Context) error {
		err := cluster.Run(ctx)
		return errors.Join(err, cluster.Stop())
	})
	return nil
}

func (in *infra) connect(ctx context.Context, life *lifecycle, log *slog.Logger) error {
	for _, database := range []struct {
		which migrations.Database
		dsn   string
		pool  **pgxpool.Pool
		most  int32
	}{{migrations.Vault, in.vaultDSN, &in.vault, vaultConnections}, {migrations.Read, in.readDSN, &in.read, readConnections}} {
		if err := migrations.Up(ctx, database.dsn, database.which); err != nil {
			return fmt.Errorf("bring database %s up to date: %w", database.which.Name(), err)
		}
		settings, err := poolOf(database.dsn, database.most)
		if err != nil {
			return fmt.Errorf("connect to database %s: %w", database.which.Name(), err)
		}
		lifeline.Attach(settings, lifeline.Patience, lifeline.Pong)
		if database.which == migrations.Read {
			// A crash of Postgres may take its last half second: rows and checkpoints go back together, and every reader
			// goes on from its checkpoint in the log. So nothing waits for this disk; the log's is waited for already.
			settings.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
			// Every hot query has its index. A plan made while a table was small would otherwise read it whole, and go on doing
			// so, prepared as it is, until the next ANALYZE.
			settings.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
		}
		pool, err := pgxpool.NewWithConfig(ctx, settings)
		if err != nil {
			return fmt.Errorf("connect to database %s: %w", database.which.Name(), err)
		}
		*database.pool = pool
		life.closingFor("pool of "+database.which.Name(), stopPoolWithin, pool.Close)
	}
	log.Debug("databases are up to date")
	return nil
}

// The connections that a process opens at most, where the DSN says nothing else (pool_max_conns): enough that the
// projectors, which hold one each for as long as a batch takes, never keep requests waiting, whatever the machine.
const (
	readConnections  = 24
	vaultConnections = 8
)

// poolOf is the pool of a DSN, with at most so many connections unless the DSN itself says how many.
func poolOf(dsn string, most int32) (*pgxpool.Config, error) {
	settings, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	plain, err := pgx.ParseConfig(dsn) // which leaves the pool's own parameters where they can be seen
	if err != nil {
		return nil, err
	}
	if _, said := plain.RuntimeParams["pool_max_conns"]; !said {
		settings.MaxConns = most
	}
	return settings, nil
}

func pid() int { return os.Getpid() }
