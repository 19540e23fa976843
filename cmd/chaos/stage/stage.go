package stage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/proxy"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// Roles are those that processes are started for.
func Roles() []string { return app.AllRoles() }

// Config says what to build up.
type Config struct {
	Dir        string   // empty, of our own
	Binary     string   // cairn
	Clocked    []string // the program and arguments that stand for cairn where its clock is shifted
	Brokers    int
	Partitions int32
	Of         int      // processes of each role; 0: 2
	Roles      []string // nil: all
	Env        []string
	Log        *slog.Logger
}

// Stage is a running installation.
type Stage struct {
	Config
	Kafka    *kafkatest.Cluster
	Database *Database
	// API is where HTTP clients go, Gate where sockets go: each to either of the two processes in turn.
	API, Gate *proxy.Proxy
	Processes []*Process

	models   *modeltest.Server
	topics   kafka.Topics
	watching sync.WaitGroup

	mu      sync.Mutex
	onModel func(tools int)
}

const masterKey = 7 // each byte of it

// Master is the installation's master key.
func (s *Stage) Master() []byte { return bytes.Repeat([]byte{masterKey}, 32) }

// Open builds everything up and returns when all processes can work.
func Open(ctx context.Context, c Config) (_ *Stage, err error) {
	c.Of = cmp.Or(c.Of, 2)
	s := &Stage{Config: c, topics: kafka.Topics{Partitions: c.Partitions, Replication: int16(c.Brokers)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.models, err = modeltest.Start(s.answer()); err != nil {
		return nil, err
	}
	// Postgres' user must be able to walk in.
	if err := os.Chmod(c.Dir, 0o755); err != nil { //nolint:gosec // nothing secret lies in it
		return nil, err
	}
	g, start := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		s.Kafka, err = kafkatest.Start(start, kafkatest.Config{Dir: filepath.Join(c.Dir, "kafka"), Brokers: c.Brokers, Log: c.Log})
		return err
	})
	g.Go(func() (err error) {
		s.Database, err = openDatabase(start, filepath.Join(c.Dir, "postgres"), c.Log)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if out, err := s.Run(ctx, "migrate"); err != nil {
		return nil, fmt.Errorf("cairn migrate: %w: %s", err, out)
	}
	if err := s.Start(s.Processes...); err != nil {
		return nil, err
	}
	return s, s.Ready(ctx)
}

// open prepares processes and the proxies before them.
func (s *Stage) open() error {
	if s.Roles == nil {
		s.Roles = Roles()
	}
	for _, role := range s.Roles {
		for i := range s.Of {
			p, err := NewProcess(Program{Dir: s.Dir, Binary: s.Binary, Clocked: s.Clocked, Env: s.env()}, role, i+1)
			if err != nil {
				return err
			}
			s.Processes = append(s.Processes, p)
		}
	}
	var err error
	if s.API, err = proxy.Listen(targets(s.With("api"))...); err != nil {
		return err
	}
	s.Gate, err = proxy.Listen(targets(s.With("gateway"))...)
	return err
}

func targets(processes []*Process) []proxy.Target {
	all := make([]proxy.Target, 0, len(processes))
	for _, p := range processes {
		all = append(all, proxy.TCP(p.Addr))
	}
	return all
}

func (s *Stage) env() []string {
	return append([]string{
		"CAIRN_BROKERS=" + strings.Join(s.Kafka.Seeds(), ","), "CAIRN_LIVE_BROKERS=",
		fmt.Sprintf("CAIRN_REPLICATION=%d", s.Brokers), fmt.Sprintf("CAIRN_PARTITIONS=%d", s.Partitions),
		"CAIRN_DATABASE_URL=" + s.Database.DSN(migrations.Read), "CAIRN_VAULT_URL=" + s.Database.DSN(migrations.Vault),
		"CAIRN_MASTER_KEY=" + hex.EncodeToString(s.Master()),
		"CAIRN_MODEL_URL=" + s.models.URL, "CAIRN_LOG_LEVEL=info", "CAIRN_COMMAND_RATE=100000", "CAIRN_COMMAND_BURST=100000",
		"GOMAXPROCS=2", "GOGC=100",
	}, s.Env...)
}

// answer is the model: the offline one, over HTTP.
func (s *Stage) answer() modeltest.Script {
	play := modeltest.Playing(offline.New())
	return func(ctx context.Context, r modeltest.Request) modeltest.Reply {
		s.mu.Lock()
		hook := s.onModel
		s.mu.Unlock()
		if hook != nil {
			hook(len(r.Tools))
		}
		reply := play(ctx, r)
		reply.Pause = 5 * time.Millisecond
		return reply
	}
}

// OnModel has hook called at each request to the model, with how many tools it has. Nil: nothing.
func (s *Stage) OnModel(hook func(tools int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onModel = hook
}

// With are the processes of a role.
func (s *Stage) With(role string) []*Process {
	var found []*Process
	for _, p := range s.Processes {
		if p.Role == role {
			found = append(found, p)
		}
	}
	return found
}

// Start starts processes.
func (s *Stage) Start(processes ...*Process) error {
	for _, p := range processes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Ready waits until all processes can work.
func (s *Stage) Ready(ctx context.Context) error {
	for _, p := range s.Processes {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a command of the program on the installation, and answers what it printed.
func (s *Stage) Run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	cmd.Env = append(os.Environ(), s.env()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Topics are the installation's.
func (s *Stage) Topics() kafka.Topics { return s.topics }

// Brokered says how to reach the log.
func (s *Stage) Brokered() kafka.Config {
	return kafka.Config{Seeds: s.Kafka.Seeds(), Topics: s.topics}
}

// Watch calls seen, once, when a record that holds what comes into a topic from now on. It returns when it watches, which
// it does until ctx ends.
func (s *Stage) Watch(ctx context.Context, topic, what string, seen func()) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Kafka.Seeds()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	settle, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	client.PollFetches(settle) // it now knows where the end is
	cancel()
	s.watching.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			found := false
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { found = found || bytes.Contains(r.Value, []byte(what)) })
			if found {
				seen()
				return
			}
		}
	})
	return nil
}

// Ended says how processes ended that were not told to, or not as they were told to.
func (s *Stage) Ended() []End {
	var all []End
	for _, p := range s.Processes {
		all = append(all, p.Ended()...)
	}
	return all
}

// Close ends everything, whatever state it is in, and returns when it is gone. The contexts of Watch have ended.
func (s *Stage) Close() error {
	var faults []error
	for _, p := range s.Processes {
		p.Kill()
	}
	for _, p := range s.Processes {
		p.wait()
	}
	for _, p := range []*proxy.Proxy{s.API, s.Gate} {
		if p != nil {
			p.Close()
		}
	}
	if s.Database != nil {
		faults = append(faults, s.Database.close())
	}
	if s.Kafka != nil {
		faults = append(faults, s.Kafka.Close())
	}
	if s.models != nil {
		s.models.Close()
	}
	s.watching.Wait()
	return errors.Join(faults...)
}
