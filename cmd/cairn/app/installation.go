package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

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
