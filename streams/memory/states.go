// Package memory keeps a writer's states and the data keys of scopes in memory, for tests in virtual
// time, where Postgres can't be. Both pass the conformance suites that the Postgres ones pass; neither is
// for production, since nothing outlives the process.
package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
)

// States implements streams.States. Every call is one snapshot, as one statement is in Postgres.
type States struct {
	mu          sync.Mutex
	checkpoints map[int32]streams.Checkpoint
	states      map[streams.StreamKey]streams.StateRow
	scopes      map[domain.Scope]streams.ScopeRow
	answers     map[streams.CommandKey]streams.AnswerRow
}

// NewStates is an empty store.
func NewStates() *States {
	return &States{
		checkpoints: map[int32]streams.Checkpoint{},
		states:      map[streams.StreamKey]streams.StateRow{},
		scopes:      map[domain.Scope]streams.ScopeRow{},
		answers:     map[streams.CommandKey]streams.AnswerRow{},
	}
}

// Load implements streams.States.
func (s *States) Load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return streams.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := streams.Snapshot{Checkpoint: s.checkpoint(partition)}
	for _, key := range unique(what.Streams) {
		if row, ok := s.states[key]; ok {
			snapshot.States = append(snapshot.States, copyState(row))
		}
	}
	for _, scope := range unique(what.Scopes) {
		if row, ok := s.scopes[scope]; ok {
			snapshot.Scopes = append(snapshot.Scopes, row)
		}
	}
	for _, key := range unique(what.Commands) {
		if row, ok := s.answers[key]; ok {
			snapshot.Answers = append(snapshot.Answers, copyAnswer(row))
		}
	}
	return snapshot, nil
}

// Store implements streams.States.
func (s *States) Store(ctx context.Context, f streams.Flush) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkpoint(f.Partition) != f.Expected && !safety.Off(safety.Flush) {
		return streams.ErrFlushConflict
	}
	s.checkpoints[f.Partition] = f.Next
	for _, row := range f.States {
		key := streams.StreamKey{Scope: row.Scope, Stream: row.Stream}
		if old, ok := s.states[key]; !ok || row.Version > old.Version || row.Fold != old.Fold {
			s.states[key] = copyState(row)
		}
	}
	for _, row := range f.Scopes {
		if old, ok := s.scopes[row.Scope]; !ok || row.Position >= old.Position {
			row.Erased = row.Erased || old.Erased
			s.scopes[row.Scope] = row
		}
	}
	for _, row := range f.Answers {
		key := streams.CommandKey{Scope: row.Scope, ID: row.CommandID}
		if _, known := s.answers[key]; !known {
			s.answers[key] = copyAnswer(row)
		}
	}
	return nil
}

func (s *States) checkpoint(partition int32) streams.Checkpoint {
	if c, ok := s.checkpoints[partition]; ok {
		return c
	}
	return streams.Start()
}

func unique[K comparable](keys []K) []K {
	seen := make(map[K]bool, len(keys))
	return slices.DeleteFunc(slices.Clone(keys), func(k K) bool {
		twice := seen[k]
		seen[k] = true
		return twice
	})
}

func copyState(row streams.StateRow) streams.StateRow {
	row.Hash, row.State = bytes.Clone(row.Hash), bytes.Clone(row.State)
	return row
}

func copyAnswer(row streams.AnswerRow) streams.AnswerRow {
	row.Fingerprint, row.Heads = bytes.Clone(row.Fingerprint), slices.Clone(row.Heads)
	if row.Rejected != nil {
		rejected := *row.Rejected
		rejected.Numbers = maps.Clone(rejected.Numbers)
		row.Rejected = &rejected
	}
	return row
}

// PutBack makes the store what it is after flushes alone, in one step, as a database is that was restored from an
// older copy.
func (s *States) PutBack(ctx context.Context, flushes []streams.Flush) error {
	old := NewStates()
	for _, f := range flushes {
		if err := old.Store(ctx, f); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints, s.states, s.scopes, s.answers = old.checkpoints, old.states, old.scopes, old.answers
	return nil
}

// Migrated is a copy of the store with other checkpoints, by partition, as a migration of the log leaves it.
func (s *States) Migrated(ends []streams.Checkpoint) *States {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := NewStates()
	moved.states, moved.scopes, moved.answers = maps.Clone(s.states), maps.Clone(s.scopes), maps.Clone(s.answers)
	for p, end := range ends {
		moved.checkpoints[int32(p)] = end
	}
	return moved
}
