package reconnect

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Heads are how far the log is.
type Heads struct {
	Positions map[domain.Scope]uint64
	Streams   map[streams.StreamKey]uint64
	Events    int
}

// Of are the heads of the streams of a scope.
func (h Heads) Of(scope domain.Scope) map[domain.Stream]uint64 {
	found := map[domain.Stream]uint64{}
	for key, head := range h.Streams {
		if key.Scope == scope {
			found[key.Stream] = head
		}
	}
	return found
}

// Read reads the log twice, and says how far it is.
func Read(ctx context.Context, config kafka.Config) (logs []*history.Log, h Heads, err error) {
	for range 2 {
		log, err := history.Read(ctx, config)
		if err != nil {
			return nil, h, err
		}
		logs = append(logs, log)
	}
	return logs, HeadsOf(logs[1]), nil
}

// HeadsOf says how far a reading of the log is.
func HeadsOf(log *history.Log) Heads {
	h := Heads{Positions: map[domain.Scope]uint64{}, Streams: map[streams.StreamKey]uint64{}}
	for e := range events(log) {
		h.Events++
		h.Positions[e.Scope] = e.Position
		h.Streams[streams.StreamKey{Scope: e.Scope, Stream: e.Stream}] = e.Version
	}
	return h
}

// events are those of the commits that count, partition by partition.
func events(log *history.Log) func(yield func(streams.Recorded) bool) {
	return func(yield func(streams.Recorded) bool) {
		for _, partition := range log.Partitions {
			for _, entry := range partition {
				if !entry.Counts || entry.Commit == nil {
					continue
				}
				for _, e := range entry.Commit.Events {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// Judge holds what every witness was given against readings of the log. It answers what is wrong, and how many events were
// delivered.
func Judge(logs []*history.Log, recorder *history.Recorder, witnesses []*Witness) (wrong []string, deliveries int) {
	verdict := history.Check(history.Evidence{
		History: recorder, Logs: logs, Invoked: func(*streams.Commit) bool { return false },
	})
	for _, f := range verdict.Faults {
		wrong = append(wrong, f.String())
	}
	deliveries = verdict.Deliveries
	for _, w := range witnesses {
		if n := w.Counts(); n.Again+n.Holes > 0 {
			wrong = append(wrong, fmt.Sprintf("%s was sent %d events again, and met %d holes", w.Name, n.Again, n.Holes))
		}
		for _, s := range w.subscriptions {
			if s.types == nil {
				continue
			}
			deliveries += len(s.given)
			if fault := s.judge(w.Scope, logs[len(logs)-1]); fault != "" {
				wrong = append(wrong, w.Name+": "+fault)
			}
		}
	}
	return wrong, deliveries
}

// judge holds a filtered subscription against the log.
func (s *subscription) judge(scope domain.Scope, log *history.Log) string {
	var want []given
	for e := range events(log) {
		if e.Scope == scope && slices.Contains(s.types, e.Type) {
			want = append(want, given{e.Position, e.ID})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range s.given {
		if i >= len(want) || g != want[i] {
			return fmt.Sprintf("its filter brought event %s at %d as its number %d, which is not the log's", g.id, g.position, i+1)
		}
	}
	if len(s.given) < len(want) {
		return fmt.Sprintf("its filter brought %d events of %d", len(s.given), len(want))
	}
	return ""
}
