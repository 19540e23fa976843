package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// meanwhile is a note in whose making something else happens.
type meanwhile struct {
	happens func()
	noted   bool
}

func (m *meanwhile) Note(context.Context) error {
	m.noted = true
	m.happens()
	return nil
}

func (m *meanwhile) TakeBack(context.Context) error {
	m.noted = false
	return nil
}

// TestAVoidLosesAgainstAWriter: one that stores past the record while it is voided, with its events, keeps it; one that
// had read the note already does not.
func TestAVoidLosesAgainstAWriter(t *testing.T) {
	for name, heeded := range map[string]bool{"it built on the record": false, "it heeded the void": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1, 1, memory.NewKeys())
			pen := newPen(t, func() kafka.Config {
				if err := s.config.Ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
				return s.config
			}())
			pen.takeLead(1, penWriter)
			c := command("user-a", "1", "pro")
			pen.write(pen.commit(c, 0, nil, 1))
			row := streams.AnswerRow{Scope: c.Scope, CommandID: c.ID, Era: 1, Offset: 1, Position: 1}
			if !heeded {
				row.Heads = []streams.Head{{Stream: "account-a", Version: 1}}
			}
			notes := &meanwhile{happens: func() {
				next := streams.Checkpoint{Next: 2, Acceptance: streams.Acceptance{
					Era: 1, Lead: 1, Writer: penWriter, After: streams.CommandPlace{Era: 1},
				}}
				if err := s.states.Store(t.Context(), streams.Flush{Expected: streams.Start(), Next: next, Answers: []streams.AnswerRow{row}}); err != nil {
					t.Fatal(err)
				}
			}}
			_, err := s.config.Void(t.Context(), s.states, 0, 1, notes)
			if errors.Is(err, kafka.ErrVoidTooLate) == heeded || notes.noted != heeded {
				t.Errorf("voided: %v; noted: %v", err, notes.noted)
			}
		})
	}
}

// TestWhatAnotherStandsOnIsNotVoided: a commit whose scope has gone on leaves a hole, whatever the writer has stored;
// those behind it are voided first.
func TestWhatAnotherStandsOnIsNotVoided(t *testing.T) {
	s := newSite(t, 1, 1, memory.NewKeys())
	if err := s.config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	pen := newPen(t, s.config)
	pen.takeLead(1, penWriter)
	pen.write(pen.commit(command("user-a", "1", "pro"), 0, nil, 1)) // offset 1
	pen.write(pen.commit(command("user-a", "2", "pro"), 1, nil, 2))
	voided := map[int64]bool{}
	s.config.Voided = func(context.Context, int32) (map[int64]bool, error) { return voided, nil }
	void := func(offset int64) (noted bool, err error) {
		notes := &meanwhile{happens: func() { voided[offset] = true }}
		_, err = s.config.Void(t.Context(), s.states, 0, offset, notes)
		return notes.noted, err
	}
	if noted, err := void(1); err == nil || noted {
		t.Errorf("the first of two was voided: %v, noted %v", err, noted)
	}
	for _, offset := range []int64{2, 1} {
		if noted, err := void(offset); err != nil || !noted {
			t.Errorf("voiding offset %d, the last first: %v, noted %v", offset, err, noted)
		}
	}
}
