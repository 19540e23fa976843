package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// owes is a log, closed, whose writer rejected its one command for good and died before it parked it.
func owes(t *testing.T) *site {
	t.Helper()
	s := newSite(t, 1, 1, memory.NewKeys())
	if err := s.config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	pen := newPen(t, s.config)
	c := command("user-a", "1", "pro")
	pen.append(s.config.Topics.Commands(), kafka.CommandHeaders(c.Scope, c.ID), []byte("undecidable"))
	pen.takeLead(1, penWriter)
	rejection := pen.commit(c, 0, nil)
	rejection.Rejected = &domain.Rejection{Code: domain.CodeInternal, Reason: "it could not be decided"}
	value, err := codec.EncodeCommit(rejection)
	if err != nil {
		t.Fatal(err)
	}
	pen.append(s.config.Topics.Log(), append(kafka.CommitHeaders(rejection, 0), kgo.RecordHeader{Key: kafka.HeaderParks}), value)
	end := streams.Mark{Sort: streams.SortClose, Era: 1, Lead: 2, Writer: "closer"}
	pen.append(s.config.Topics.Log(), kafka.LeadHeaders(end), nil)
	return s
}

// TestSettleParksWhatIsOwed: nobody leads a closed log any more, so whoever settles its states parks what an earlier writer
// did not come to park, however little may be unflushed; else a migration would leave it behind.
func TestSettleParksWhatIsOwed(t *testing.T) {
	for _, unflushed := range []int{0, 4} {
		t.Run(fmt.Sprint(unflushed), func(t *testing.T) {
			s := owes(t)
			config := s.writing()
			config.MaxUnflushed = unflushed
			at, err := kafka.Settle(t.Context(), config, 0)
			if err != nil || !at.Acceptance.Closed {
				t.Fatalf("settled at %+v: %v", at, err)
			}
			items, err := s.config.ReadParked(t.Context())
			if err != nil || len(items) != 1 || items[0].Scope != "user-a" {
				t.Fatalf("parked: %+v, %v", items, err)
			}
		})
	}
}

// contested states are stored by another each time just before.
type contested struct {
	streams.States
	tries atomic.Int64
}

// Store implements streams.States.
func (c *contested) Store(context.Context, streams.Flush) error {
	if c.tries.Add(1) > 1000 {
		return errors.New("it never gives up")
	}
	return streams.ErrFlushConflict
}

// TestSettleGivesUp: where another stores all the time, Settle says so in the end.
func TestSettleGivesUp(t *testing.T) {
	s := owes(t)
	config := s.writing()
	states := &contested{States: s.states}
	config.States = states
	if _, err := kafka.Settle(t.Context(), config, 0); !errors.Is(err, streams.ErrFlushConflict) || states.tries.Load() < 2 {
		t.Errorf("after %d tries: %v", states.tries.Load(), err)
	}
}
