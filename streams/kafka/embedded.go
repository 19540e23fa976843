package kafka

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cairnhq/cairn/streams"
)

// DataFormat is the number of the data directory's layout that this program writes. It reads all up to it.
const DataFormat = 1

// EmbeddedConfig says where an embedded broker keeps its data and what it does when it can't.
type EmbeddedConfig struct {
	// Dir holds the data; only one process may use it. Empty: everything in memory.
	Dir string
	// Sync says that a write is on disk before it is acknowledged.
	Sync bool
	// MinFree is the space in bytes below which Free refuses; zero: 1 GiB.
	MinFree uint64
	// Fatal is called once when data could not be written. The broker acknowledges nothing from then on; the
	// process must end. Fatal only signals: it must not call Close. Nil: the process exits at once.
	Fatal func(error)
	// Port is that of the broker of the log; zero: any.
	Port int
	Log  *slog.Logger
}

// Embedded is a Kafka broker in this process (franz-go's kfake): one for the log, on disk, and one in memory
// for replies and live, so that what is provisional never waits for a disk.
type Embedded struct {
	config EmbeddedConfig
	lock   *os.File
	disk   *kfake.Cluster
	memory *kfake.Cluster
	guard  *brokerLog
	once   sync.Once
	closed error
}

// ErrLocked is the answer when another process uses the data directory.
var ErrLocked = errors.New("another process uses this data directory")

// ErrNewerData is the answer when a newer release wrote the data directory.
var ErrNewerData = errors.New("a newer release wrote this data directory")

// StartEmbedded starts both brokers. It answers ErrLocked and ErrNewerData, and refuses data that was damaged.
func StartEmbedded(config EmbeddedConfig) (*Embedded, error) {
	config.MinFree = cmp.Or(config.MinFree, 1<<30)
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	e := &Embedded{config: config}
	options := []kfake.Opt{kfake.NumBrokers(1)}
	if config.Port != 0 {
		options = []kfake.Opt{kfake.Ports(config.Port)}
	}
	options = append(options, kfake.ClusterID("cairn"),
		// Topics say what they keep; nothing may be dropped because one does not.
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}))
	if config.Dir != "" {
		lock, err := claimDir(config.Dir)
		if err != nil {
			return nil, err
		}
		e.lock = lock
		if err := checkFormat(config.Dir); err != nil {
			lock.Close()
			return nil, err
		}
		data := filepath.Join(config.Dir, "broker")
		e.guard = newBrokerLog(data, config.Log, config.Fatal)
		options = append(options, kfake.DataDir(data), kfake.WithLogger(e.guard))
	}
	if config.Sync {
		options = append(options, kfake.SyncWrites())
	}
	if err := e.start(options); err != nil {
		if e.lock != nil {
			e.lock.Close()
		}
		return nil, err
	}
	return e, nil
}

func (e *Embedded) start(options []kfake.Opt) error {
	began := time.Now()
	disk, err := kfake.NewCluster(options...)
	if err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	if e.guard != nil {
		if err := e.guard.started(disk.Close); err != nil {
			return fmt.Errorf("embedded broker: %w", err)
		}
	}
	memory, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("cairn-live"),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "60000"}))
	if err != nil {
		disk.Close()
		return fmt.Errorf("embedded broker in memory: %w", err)
	}
	e.disk, e.memory = disk, memory
	e.config.Log.Info("embedded broker started", "dir", e.config.Dir, "sync", e.config.Sync, "took", time.Since(began))
	return nil
}

// Seeds are the address of the broker of commands, log and parked.
func (e *Embedded) Seeds() []string { return e.disk.ListenAddrs() }

// LiveSeeds are the address of the broker of replies and live.
func (e *Embedded) LiveSeeds() []string { return e.memory.ListenAddrs() }

// Free answers *streams.Busy when less than MinFree bytes are left where the data lies.
func (e *Embedded) Free() error {
	if e.config.Dir == "" {
		return nil
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(e.config.Dir, &s); err != nil {
		return fmt.Errorf("free space of %s: %w", e.config.Dir, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < e.config.MinFree {
		return &streams.Busy{
			Reason:     fmt.Sprintf("the disk is nearly full: %d MiB are free, %d MiB must be", free>>20, e.config.MinFree>>20),
			RetryAfter: 10 * time.Second,
		}
	}
	return nil
}

// Close stops both brokers and gives the directory back. Clients must be closed before.
func (e *Embedded) Close() error {
	e.once.Do(func() {
		e.memory.Close()
		if e.guard != nil {
			e.guard.closing()
		}
		e.disk.Close()
		if e.guard != nil {
			e.closed = e.guard.fault()
		}
		if e.lock != nil {
			e.closed = errors.Join(e.closed, e.lock.Close())
		}
	})
	return e.closed
}

// claimDir locks the directory for this process. The lock ends with the process, however it ends.
func claimDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		holder := make([]byte, 32)
		n, _ := f.Read(holder)
		return nil, fmt.Errorf("%w: %s is held by process %s", ErrLocked, dir, cmp.Or(strings.TrimSpace(string(holder[:n])), "unknown"))
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

type dataFormat struct {
	Format int `json:"format"`
}

// checkFormat checks the directory's format number, or writes ours into a new one.
func checkFormat(dir string) error {
	err := CheckFormat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(filepath.Join(dir, "format.json"))
	}
	return err
}

// CheckFormat answers ErrNewerData for a directory that this program can't read, and fs.ErrNotExist for one that has
// no data yet. It changes nothing.
func CheckFormat(dir string) error {
	path := filepath.Join(dir, "format.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("data format: %w", err)
	}
	var f dataFormat
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("data format: %s: %w", path, err)
	}
	if f.Format > DataFormat {
		return fmt.Errorf("%w: %s has format %d, this program reads up to %d", ErrNewerData, dir, f.Format, DataFormat)
	}
	return nil
}

// writeFormat leaves either no file or a whole one.
func writeFormat(path string) error {
	raw, _ := json.Marshal(dataFormat{DataFormat})
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("data format: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("data format: %w", err)
	}
	return nil
}
