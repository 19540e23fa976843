package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// brokerLog is the embedded broker's logger. The broker has no other way to say that it could not write or
// had to cut its files, so this logger acts on what it says: it refuses a start that would drop
// acknowledged data, and stops a running broker, which would else acknowledge what it did not keep.
type brokerLog struct {
	dir   string
	log   *slog.Logger
	fatal func(error)
	free  chan struct{} // closed when the broker is being closed

	mu      sync.Mutex
	running bool
	stopped bool
	faults  []error
	cuts    []cut
}

// cut is a piece of a segment that the broker is about to drop.
type cut struct {
	path string
	tail []byte
}

func newBrokerLog(dir string, log *slog.Logger, fatal func(error)) *brokerLog {
	if fatal == nil {
		fatal = func(err error) {
			log.Error("the broker can't keep data", "error", err)
			os.Exit(1)
		}
	}
	return &brokerLog{dir: dir, log: log, fatal: fatal, free: make(chan struct{})}
}

// Logf implements kfake.Logger. The broker calls it from the goroutine that serves all requests, and before it acts.
func (b *brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if level > kfake.LogLevelWarn {
		return
	}
	text := fmt.Sprintf(format, args...)
	b.log.Warn("embedded broker: " + text)
	if b.loading() {
		b.duringLoad(format, text, args)
		return
	}
	for _, word := range []string{"persist", "truncating", "truncate", "corrupt", "rebuildSegments", "save session state"} {
		if strings.Contains(text, word) {
			b.stop(errors.New(text))
			return
		}
	}
}

func (b *brokerLog) loading() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.running
}

// stop holds the goroutine that serves requests until Close: nothing is acknowledged after a fault.
func (b *brokerLog) stop(err error) {
	b.mu.Lock()
	b.faults = append(b.faults, fmt.Errorf("the broker can't keep data: %w", err))
	first := !b.stopped
	b.stopped = true
	b.mu.Unlock()
	select {
	case <-b.free:
		return
	default:
	}
	if first {
		b.fatal(err)
	}
	<-b.free
}

// duringLoad looks at what the broker finds wrong when it reads its files. A write that a kill broke off leaves
// the beginning of one batch at the end of the newest segment; it was not acknowledged, and the broker drops it.
// Anything else it would drop was acknowledged. Groups, producer ids and sessions are nothing Cairn relies on.
func (b *brokerLog) duringLoad(format, text string, args []any) {
	if !strings.HasPrefix(format, "partition ") {
		return
	}
	err := errors.New(text)
	if strings.Contains(format, "truncating") && len(args) == 4 {
		if err = b.examine(args); err == nil {
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, err)
}

// examine reads the piece that is about to be dropped and answers an error unless it is a write broken off.
func (b *brokerLog) examine(args []any) error {
	name := fmt.Sprintf("%v-%v", args[0], args[1])
	base, ok1 := args[2].(int64)
	n, ok2 := args[3].(int)
	if !ok1 || !ok2 {
		return fmt.Errorf("partition %s: %d bytes are damaged", name, n)
	}
	dir := filepath.Join(b.dir, "partitions", name)
	path := filepath.Join(dir, strconv.FormatInt(base, 10)+".dat")
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) < n {
		return fmt.Errorf("partition %s: %d bytes are damaged, and can't be examined: %w", name, n, err)
	}
	tail := raw[len(raw)-n:]
	if newest(dir) == base && brokenOff(tail, len(raw)-n) {
		return nil
	}
	b.mu.Lock()
	b.cuts = append(b.cuts, cut{path: path, tail: bytes.Clone(tail)})
	b.mu.Unlock()
	return fmt.Errorf("partition %s: %s is damaged %d bytes before its end; these were acknowledged, so they are not dropped: put the file back from a copy", name, path, n)
}

// newest is the base offset of the newest segment in a partition's directory.
func newest(dir string) int64 {
	entries, _ := os.ReadDir(dir)
	last := int64(-1)
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), ".dat"); ok {
			if base, err := strconv.ParseInt(text, 10, 64); err == nil {
				last = max(last, base)
			}
		}
	}
	return last
}

// brokenOff reports whether a tail, which begins at a place in its file, is the beginning of one batch, or what a power failure
// leaves of one: zeros, or a batch of which sectors are zeros, since they were never written; with no whole batch behind.
func brokenOff(tail []byte, at int) bool {
	if len(bytes.Trim(tail, "\x00")) == 0 {
		return true
	}
	n := batchSize(tail)
	if whole := n > 0 && n <= len(tail); whole && (!unwritten(tail, at) || n > batchHead && n < len(tail)) {
		return false // a whole batch whose checksum is wrong, or one with something behind it
	}
	for i := range tail {
		if n := batchSize(tail[i:]); i > 0 && n > batchHead && n <= len(tail)-i && tail[i+16] == 2 &&
			binary.BigEndian.Uint32(tail[i+17:]) == crc32.Checksum(tail[i+21:i+n], crc32.MakeTable(crc32.Castagnoli)) {
			return false
		}
	}
	return true
}

const (
	batchHead  = 61  // bytes of a batch before its records
	sectorSize = 512 // what a disk writes whole or not at all
)

// unwritten reports whether a sector of a tail has nothing but zeros. What is sealed or compressed, as all batches are, has none.
func unwritten(tail []byte, at int) bool {
	for from := (sectorSize - at%sectorSize) % sectorSize; from < len(tail); from += sectorSize {
		if len(bytes.Trim(tail[from:min(from+sectorSize, len(tail))], "\x00")) == 0 {
			return true
		}
	}
	return false
}

// batchSize is the size that a record batch says it has, or 0 if too little of it is there.
func batchSize(b []byte) int {
	if len(b) < 12 {
		return 0
	}
	return 12 + int(binary.BigEndian.Uint32(b[8:]))
}

// started ends loading. If acknowledged data was damaged it stops the broker, puts back what it cut, and answers why.
func (b *brokerLog) started(stop func()) error {
	b.mu.Lock()
	err := errors.Join(b.faults...)
	b.running = true
	b.mu.Unlock()
	if err == nil {
		return nil
	}
	close(b.free)
	stop()
	for _, c := range b.cuts {
		f, openErr := os.OpenFile(c.path, os.O_WRONLY|os.O_APPEND, 0)
		if openErr != nil && !errors.Is(openErr, fs.ErrNotExist) {
			return errors.Join(err, openErr)
		}
		if openErr == nil {
			_, writeErr := f.Write(c.tail)
			err = errors.Join(err, writeErr, f.Sync(), f.Close())
		}
	}
	return err
}

// closing lets a stopped broker's goroutine go, so that it can be closed.
func (b *brokerLog) closing() { close(b.free) }

// fault is what went wrong since the start.
func (b *brokerLog) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.faults...)
}
