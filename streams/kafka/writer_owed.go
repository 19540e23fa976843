package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// parkOne appends a record to the parked topic; it tries until it succeeds.
func (t *term) parkOne(ctx context.Context, r *kgo.Record) error {
	return t.persist(ctx, "park", "the parked topic", func() error {
		err := t.writer.parked.ProduceSync(ctx, r).FirstErr()
		if errors.Is(err, kerr.MessageTooLarge) && r.Value != nil { // with the headers that say why it is here
			t.status.log.Error("a parked command is too large to be kept: its headers are", "error", err)
			r.Value = nil
		}
		return err
	})
}

// parkOwed parks the commands that an earlier writer rejected and may not have come to park. Walk: it appended the
// rejection and read it back, and died before it parked the command; its states were not stored, since parking comes
// first, so this writer meets the rejection in its replay, and the command is still in its topic, since commands are
// trimmed only up to what is stored. What the parked topic has is not parked again.
func (t *term) parkOwed(ctx context.Context) error {
	if len(t.owed) == 0 {
		return nil
	}
	owed, err := t.stillOwed(ctx)
	if err != nil {
		return err
	}
	for _, o := range owed {
		r, err := t.command(ctx, o.offset)
		if err != nil {
			return err
		}
		if r == nil {
			t.status.log.Error("a command that was to be parked is gone", "offset", o.offset)
			continue
		}
		if err := t.parkOne(ctx, parkedRecord(t.config.Topics, o.id, r, o.reason)); err != nil {
			return err
		}
		t.status.log.Error("a command that an earlier writer could not decide was not parked yet, and is now", "offset", o.offset)
	}
	t.owed = nil
	return nil
}

// owed is a command that is to be parked.
type owed struct {
	id     string // of its item
	offset int64
	reason error
}

// stillOwed are the commands that were to be parked and are not, in the order of the log.
func (t *term) stillOwed(ctx context.Context) ([]owed, error) {
	var all []owed
	for _, commit := range t.owed {
		h, err := ReadHeaders(commit.Headers)
		if err != nil || h.Mark.Era != t.config.Topics.CurrentEra() {
			continue // commands of an older era lie in another topic, and a migration brings parked ones along
		}
		o := owed{offset: h.Mark.CommandOffset, reason: errors.New("it could not be decided")}
		o.id = parkedCommand(h.Answer.Scope, h.Answer.CommandID, h.Mark.Era, t.partition, o.offset)
		if h.Answer.Rejected != nil { // why, as far as the log tells
			o.reason = h.Answer.Rejected
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return nil, nil
	}
	parked := map[string]bool{} // of these alone: much may be parked
	for _, o := range all {
		parked[o.id] = false
	}
	topic := t.config.Topics.Parked()
	err := t.persist(ctx, "park", "the parked topic", func() error {
		from, ends, err := t.config.Config.bounds(ctx, t.writer.parked, topic, t.partition)
		if err != nil {
			return err
		}
		return t.config.Config.readTo(ctx, topic, from, ends, func(r *kgo.Record) {
			id, _ := find(r.Headers, HeaderParkedID)
			if _, asked := parked[string(id)]; asked {
				parked[string(id)] = true
			}
		})
	})
	return slices.DeleteFunc(all, func(o owed) bool { return parked[o.id] }), err
}

// command reads a command again; nil: it is not there any more.
func (t *term) command(ctx context.Context, offset int64) (found *kgo.Record, err error) {
	topic := t.config.Topics.Commands()
	err = t.persist(ctx, "park", "the commands topic", func() error {
		from, ends, err := t.config.Config.bounds(ctx, t.writer.parked, topic, t.partition)
		if err != nil {
			return err
		}
		if start, ok := from[t.partition]; !ok || start.EpochOffset().Offset > offset || ends[t.partition] <= offset {
			return nil
		}
		from = map[int32]kgo.Offset{t.partition: kgo.NewOffset().At(offset)}
		return t.config.Config.readTo(ctx, topic, from, map[int32]int64{t.partition: offset + 1}, func(r *kgo.Record) {
			if r.Offset == offset {
				found = r
			}
		})
	})
	return found, err
}

// bounds are where partitions of a topic begin and end, those that are empty left out; no partitions: all.
func (c Config) bounds(ctx context.Context, client *kgo.Client, topic string, partitions ...int32) (from map[int32]kgo.Offset, ends map[int32]int64, err error) {
	starts, err := kadm.NewClient(client).ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the beginning of %s: %w", topic, err)
	}
	if ends, err = offsetsAtEnd(ctx, client, topic); err != nil {
		return nil, nil, err
	}
	from = map[int32]kgo.Offset{}
	for p, end := range ends {
		start, ok := starts.Lookup(topic, p)
		if !ok || start.Offset >= end || len(partitions) > 0 && !slices.Contains(partitions, p) {
			delete(ends, p)
			continue
		}
		from[p] = kgo.NewOffset().At(start.Offset)
	}
	return from, ends, nil
}
