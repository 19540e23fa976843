package kafka_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	judge "github.com/cairnhq/cairn/streams/streamstest/history"
)

// truth is the whole log as every reader must understand it.
type truth struct {
	commits []streams.Commit
	answers map[string]streams.AnswerRow
	tallies map[streams.StreamKey]int
	leads   int
}

// evidence is the log read twice.
func (s *stage) evidence(ctx context.Context) judge.Evidence {
	s.t.Helper()
	var e judge.Evidence
	for range 2 {
		log, err := judge.Read(ctx, s.config)
		if err != nil {
			s.t.Fatal(err)
		}
		e.Logs = append(e.Logs, log)
	}
	return e
}

// check reads the log to its end and fails on whatever no history may show, or writers may not store.
func (s *stage) check() truth {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := s.evidence(ctx)
	var err error
	if e.Faults, err = judge.States(ctx, e, s.states, release(s.t, 1, 1)); err != nil {
		s.t.Fatal(err)
	}
	v := judge.Check(e)
	if err := v.Err(); err != nil {
		s.t.Fatal(err)
	}
	all := truth{answers: map[string]streams.AnswerRow{}, tallies: map[streams.StreamKey]int{}, leads: v.Leads}
	for _, partition := range e.Logs[1].Partitions {
		for _, r := range partition {
			if !r.Counts || r.Commit == nil {
				continue
			}
			all.commits = append(all.commits, *r.Commit)
			if r.Commit.CommandID != "" {
				all.answers[r.Commit.CommandID] = kafka.AnswerOf(*r.Commit, r.Position)
			}
			for _, v := range r.Commit.Events {
				if v.Type != "tally.added" {
					continue
				}
				var body added
				if err := json.Unmarshal(v.Data, &body); err != nil {
					s.t.Fatal(err)
				}
				all.tallies[streams.StreamKey{Scope: v.Scope, Stream: v.Stream}] += body.By
			}
		}
	}
	return all
}

// storeAll stores the fold of the log as another writer would that reads it just now.
func (s *stage) storeAll() {
	s.t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tailer.Close()
	ctx := context.Background()
	next, err := tailer.Live(ctx, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	now, err := s.states.Load(ctx, 0, streams.Lookup{})
	if err != nil {
		s.t.Fatal(err)
	}
	f := streams.Flush{Expected: now.Checkpoint, Next: next}
	all := s.check()
	for _, c := range all.commits {
		f.Answers = append(f.Answers, all.answers[c.CommandID])
		for _, e := range c.Events {
			state, _ := json.Marshal(tally{all.tallies[streams.StreamKey{Scope: c.Scope, Stream: e.Stream}], int(e.Version)})
			f.States = append(f.States, streams.StateRow{Scope: c.Scope, Stream: e.Stream, Version: e.Version, Hash: e.Hash, Fold: 1, State: state})
			f.Scopes = append(f.Scopes, streams.ScopeRow{Scope: c.Scope, Position: e.Position, DecidedAt: c.DecidedAt})
		}
	}
	if err := s.states.Store(ctx, f); err != nil {
		s.t.Fatal(err)
	}
}
