package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Installation is a log and its databases, for commands that copy, restore or repair all of it. Topics are not checked,
// and schemas not brought up to date.
type Installation struct {
	Kafka             kafka.Config
	ReadURL, VaultURL string
	Master            []byte // nil: there is none here

	life *lifecycle
}

// Master is the master key of an installation that has one already.
func (c Config) Master() ([]byte, error) { return c.master(true) }

// Topics are the topics that the configuration says.
func (c Config) Topics() (kafka.Topics, error) { return c.topics() }

// ErrRestoring is a data directory in which a restore began and did not end.
var ErrRestoring = errors.New("a restore is under way here, or broke off")

func (c Config) restoringPath() string { return filepath.Join(c.Data, "restoring") }

// BeginRestore marks an embedded installation as one that may not be served, until EndRestore.
func (c Config) BeginRestore() error {
	if !c.Embedded() {
		return nil
	}
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	return store(c.restoringPath(), "A restore began and has not ended.\n")
}

// EndRestore takes the mark of BeginRestore away.
func (c Config) EndRestore() error {
	if !c.Embedded() {
		return nil
	}
	return os.Remove(c.restoringPath())
}

func (c Config) refuseRestoring() error {
	if !c.Embedded() {
		return nil
	}
	_, err := os.Stat(c.restoringPath())
	if err == nil {
		return fmt.Errorf("%w: remove kafka and postgres in %s and restore again (to begin an empty one there instead, remove the file restoring too)", ErrRestoring, c.Data)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // a data directory that is none is refused where it is opened
	}
	return err
}

// OpenHere opens the installation that nobody runs: an embedded one is started in this process, and refused where another
// process has it (kafka.ErrLocked). On Kafka it only says where things are.
func OpenHere(ctx context.Context, config Config, log *slog.Logger) (*Installation, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	i := &Installation{life: newLifecycle(log)}
	if err := i.open(ctx, config, log); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

func (i *Installation) open(ctx context.Context, config Config, log *slog.Logger) error {
	master, err := config.Master()
	if err != nil {
		return err
	}
	in, err := config.openBroker(i.life, log)
	if err != nil {
		return err
	}
	in.readDSN, in.vaultDSN = config.DatabaseURL, config.VaultURL
	if config.DatabaseURL == "" {
		if err := config.startPostgres(ctx, in, i.life, log); err != nil {
			return err
		}
	}
	i.Kafka, i.ReadURL, i.VaultURL, i.Master = in.kafka, in.readDSN, in.vaultDSN, master
	return nil
}

// OpenAnywhere is OpenHere, or the installation that runs: it is not disturbed.
func OpenAnywhere(ctx context.Context, config Config, log *slog.Logger) (*Installation, error) {
	attached, _, err := config.Attach()
	if errors.Is(err, ErrNotRunning) {
		if !HasData(config.Data) {
			return nil, err
		}
		return OpenHere(ctx, config, log)
	}
	if err != nil {
		return nil, err
	}
	i := &Installation{ReadURL: attached.DatabaseURL, VaultURL: attached.VaultURL, life: newLifecycle(log)}
	i.Kafka, err = attached.kafka()
	return i, err
}

// HasData reports whether a data directory holds an installation, or a part of one.
func HasData(dir string) bool {
	for _, part := range []string{"kafka", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err == nil {
			return true
		}
	}
	return false
}

// Do works on the installation; what runs here may fail meanwhile, which ends it.
func (i *Installation) Do(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := i.life.wait(ctx); err != nil {
			cancel(err)
		}
	}()
	err := do(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	cancel(nil)
	<-watched
	return err
}

// Close ends what runs here.
func (i *Installation) Close() { i.life.stop() }
