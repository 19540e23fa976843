package kafka

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// Phase is what a writer does in a partition.
type Phase string

// The phases.
const (
	Replaying Phase = "replaying" // reads the log up to its end
	Claiming  Phase = "claiming"  // waits for its lead record
	Leading   Phase = "leading"
	Paused    Phase = "paused" // another writer leads, or the last attempt failed: it tries again later
)

// PartitionStats says how a writer is doing in a partition.
type PartitionStats struct {
	Partition int32
	Phase     Phase
	// Waiting says what the partition waits for, such as the vault; empty: nothing.
	Waiting string
	// Ended says why the last lead, or the last attempt at one, ended; empty: it was the first.
	Ended string
	Lead  int64 // the number of the lead, or of the last one

	Replayed   int64 // records read before leading, the last time
	ReplayTook time.Duration

	Decided, Rejected, Repeated int64
	// Alarms counts commands that could never be decided, each of which was parked and logged.
	Alarms int64
	Leads  int64 // how often a lead counted

	// Unflushed is how many commits are not stored yet, and FlushedAt when states were stored last.
	Unflushed int
	FlushedAt time.Time
	Stored    streams.Checkpoint
}

// status is PartitionStats under change.
type status struct {
	partition int32
	log       *slog.Logger

	mu    sync.Mutex
	s     PartitionStats
	waits map[string]string
}

func newStatus(partition int32, log *slog.Logger) *status {
	return &status{
		partition: partition, log: log.With("partition", partition),
		s: PartitionStats{Partition: partition, Phase: Replaying}, waits: map[string]string{},
	}
}

func (s *status) stats() PartitionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func (s *status) change(f func(*PartitionStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.s)
}

// wait says what something in the partition waits for, and logs it once.
func (s *status) wait(who, what string, err error) {
	s.mu.Lock()
	first := s.waits[who] == ""
	s.waits[who] = what
	s.s.Waiting = what
	s.mu.Unlock()
	if first {
		s.log.Warn("partition waits", "for", what, "error", err)
	}
}

// goOn ends a wait.
func (s *status) goOn(who string) {
	s.mu.Lock()
	what := s.waits[who]
	delete(s.waits, who)
	s.s.Waiting = ""
	for _, other := range s.waits {
		s.s.Waiting = other
	}
	s.mu.Unlock()
	if what != "" {
		s.log.Info("partition goes on", "after", what)
	}
}

func (s *status) resetWaits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.waits)
	s.s.Waiting = ""
}
