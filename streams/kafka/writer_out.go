package kafka

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// The headers of a parked command besides its own.
const (
	HeaderParkedID        = "parked_id" // of the item, wherever it is copied to
	HeaderParkedReason    = "parked_reason"
	HeaderParkedTopic     = "parked_topic"
	HeaderParkedPartition = "parked_partition"
	HeaderParkedEra       = "parked_era"
	HeaderParkedOffset    = "parked_offset"
)

// parkedCommand is the id of the item that a command becomes. One that names no scope is told by where it lay.
func parkedCommand(scope domain.Scope, command string, era int, partition int32, offset int64) string {
	if scope == "" {
		return streams.Derive("parked command", fmt.Sprint(era, " ", partition, " ", offset))
	}
	return streams.Derive(string(scope), "parked command "+command)
}

// ParkedEvent is the id of the item that an event becomes when a policy fails on it.
func ParkedEvent(policy, event string) string { return streams.Derive(event, "parked by "+policy) }

// parkedRecord is a command as it came, under the id of its item, with the reason why it could not be decided. What is
// said here comes before what the command says of itself.
func parkedRecord(topics Topics, id string, r *kgo.Record, reason error) *kgo.Record {
	headers := []kgo.RecordHeader{
		{Key: HeaderParkedID, Value: []byte(id)},
		{Key: HeaderParkedReason, Value: []byte(reason.Error())},
		{Key: HeaderParkedTopic, Value: []byte(r.Topic)},
		{Key: HeaderParkedEra, Value: strconv.AppendInt(nil, int64(topics.CurrentEra()), 10)},
		{Key: HeaderParkedPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: HeaderParkedOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
	}
	return &kgo.Record{
		Topic: topics.Parked(), Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: append(headers, r.Headers...),
	}
}

// reply sends the answer to a repeat, whose asker waits for it. One that gets lost is asked for again.
func (t *term) reply(answer streams.AnswerRow) {
	r := &kgo.Record{
		Topic: t.config.Topics.Replies(), Partition: t.partition, Key: []byte(answer.Scope), Headers: ReplyHeaders(answer),
	}
	t.writer.replies.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) {
		if err != nil {
			t.status.log.Warn("an answer to a repeated command was not sent", "command", answer.CommandID, "error", err)
		}
	})
}

// park keeps a command that could not be decided, and raises the alarm.
func (t *term) park(ctx context.Context, p *inFlight) {
	t.unparked.Add(1)
	t.status.change(func(s *PartitionStats) { s.Alarms++ })
	t.writer.metrics.parked.Inc()
	t.status.log.Error("a command can never be decided: rejected and parked",
		"scope", p.answer.Scope, "command", p.answer.CommandID, "offset", p.mark.CommandOffset, "reason", p.alarm)
	select {
	case t.parking <- p.parked:
	case <-ctx.Done():
	}
}

// trim drops commands that every stored state has, but never the last of them: a log that is emptied loses its end.
func (t *term) trim(ctx context.Context, stored streams.Checkpoint) error {
	topic := t.config.Topics.Commands()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, t.partition, stored.Acceptance.After.Offset, -1)
	_, err := kadm.NewClient(t.out).DeleteRecords(ctx, offsets)
	return err
}
