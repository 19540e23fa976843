package kafka

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
)

// The headers of a parked command besides its own.
const (
	HeaderParkedReason    = "parked_reason"
	HeaderParkedTopic     = "parked_topic"
	HeaderParkedPartition = "parked_partition"
	HeaderParkedOffset    = "parked_offset"
)

// parkedRecord is a command as it came, with the reason why it could not be decided.
func parkedRecord(topics Topics, r *kgo.Record, reason error) *kgo.Record {
	headers := append([]kgo.RecordHeader(nil), r.Headers...)
	return &kgo.Record{
		Topic: topics.Parked(), Partition: r.Partition, Key: r.Key, Value: r.Value,
		Headers: append(headers,
			kgo.RecordHeader{Key: HeaderParkedReason, Value: []byte(reason.Error())},
			kgo.RecordHeader{Key: HeaderParkedTopic, Value: []byte(r.Topic)},
			kgo.RecordHeader{Key: HeaderParkedPartition, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
			kgo.RecordHeader{Key: HeaderParkedOffset, Value: strconv.AppendInt(nil, r.Offset, 10)},
		),
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
