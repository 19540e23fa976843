package holdings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/eventlog"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
)

// topics are the places in Kafka: the records of every topic, and what the log says. Whatever belongs to a scope lies in its
// partition.
func (s Source) topics(scope domain.Scope) []place {
	t := s.Kafka.Topics
	lasting := []string{t.Commands(), t.Log(), t.Parked()}
	for _, name := range feed.Names() {
		lasting = append(lasting, t.Feed(name))
	}
	live := s.Kafka.LiveSeeds
	if len(live) == 0 {
		live = s.Kafka.Seeds
	}
	all := []place{
		{in: InLog, name: "events", read: func(ctx context.Context, to sink) (Holding, error) { return s.log(ctx, scope, to, s.events) }},
		{in: InLog, name: "rejections", read: func(ctx context.Context, to sink) (Holding, error) { return s.log(ctx, scope, to, rejections) }},
	}
	for _, name := range lasting {
		all = append(all, place{in: InTopic, name: name, read: func(ctx context.Context, to sink) (Holding, error) {
			return s.records(ctx, s.Kafka.Seeds, name, scope, to)
		}})
	}
	for _, name := range []string{t.Replies(), t.Live()} {
		all = append(all, place{in: InTopic, name: name, read: func(ctx context.Context, to sink) (Holding, error) {
			return s.records(ctx, live, name, scope, to)
		}})
	}
	return all
}

var errEnd = errors.New("reached the end")

// log reads the counted commits of a scope.
func (s Source) log(ctx context.Context, scope domain.Scope, to sink, tell func(context.Context, streams.Commit, sink) (int64, error)) (Holding, error) {
	var h Holding
	tailer, err := kafka.NewTailer(s.Kafka)
	if err != nil {
		return h, err
	}
	defer tailer.Close()
	partition := tailer.PartitionOf(scope)
	end, err := tailer.End(ctx, partition)
	if err != nil || end == 0 {
		return h, err
	}
	err = tailer.Tail(ctx, partition, streams.Start(), func(ctx context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			if c.Scope != scope || c.Place.Offset >= end {
				continue
			}
			n, err := tell(ctx, c, to)
			if h.Count += n; err != nil {
				return err
			}
		}
		s.tell(Progress{Place: s.Kafka.Topics.Log(), Done: b.Next.Next, Total: end})
		if b.Next.Next >= end {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	return h, err
}

func (s Source) events(ctx context.Context, c streams.Commit, to sink) (int64, error) {
	for _, r := range c.Events {
		if to == nil {
			continue
		}
		content, err := eventlog.Content(ctx, s.Schema, s.Keys, r)
		if err != nil {
			return 0, err
		}
		line, err := eventlog.Line(r, content)
		if err = errors.Join(err, to(line)); err != nil {
			return 0, err
		}
	}
	return int64(len(c.Events)), nil
}

// rejections are the answers that were no; they hold numbers, and no content.
func rejections(_ context.Context, c streams.Commit, to sink) (int64, error) {
	if c.Rejected == nil {
		return 0, nil
	}
	if to == nil {
		return 1, nil
	}
	line, err := json.Marshal(struct {
		At        string            `json:"at"`
		CommandID string            `json:"command_id"`
		Actor     json.RawMessage   `json:"actor,omitempty"`
		Rejected  *domain.Rejection `json:"rejected"`
		Partition int32             `json:"partition"`
		Offset    int64             `json:"offset"`
	}{c.DecidedAt, c.CommandID, c.Actor, c.Rejected, c.Place.Partition, c.Place.Offset})
	if err != nil {
		return 0, err
	}
	return 1, to(append(line, '\n'))
}

// record is a record as it is exported. Content is what a command asks for, opened.
type record struct {
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	At        time.Time         `json:"at"`
	Key       string            `json:"key"`
	Headers   map[string]string `json:"headers"`
	Value     json.RawMessage   `json:"value,omitempty"`
	Content   json.RawMessage   `json:"content,omitempty"`
}

// records reads the records of a topic that are a scope's, counted or not.
func (s Source) records(ctx context.Context, seeds []string, topic string, scope domain.Scope, to sink) (Holding, error) {
	var h Holding
	partition := s.Kafka.Topics.PartitionOf(scope)
	options := append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("cairn-scope"), kgo.KeepControlRecords()}, s.Kafka.Options...)
	if s.Kafka.EachOptions != nil {
		options = append(options, s.Kafka.EachOptions()...)
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return h, err
	}
	defer client.Close()
	start, end, err := bounds(ctx, kadm.NewClient(client), topic, partition)
	if err != nil || start >= end {
		return h, err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}})
	for next := start; next < end; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return h, err
		}
		if err := fetches.Err(); err != nil {
			return h, err
		}
		for _, r := range fetches.Records() {
			if next = r.Offset + 1; r.Offset >= end || r.Attrs.IsControl() || !belongs(r, scope) {
				continue
			}
			h.Count, h.Bytes = h.Count+1, h.Bytes+int64(len(r.Value))
			if to == nil {
				continue
			}
			if err := s.write(ctx, r, to); err != nil {
				return h, err
			}
		}
		s.tell(Progress{Place: topic, Done: next, Total: end})
	}
	return h, nil
}

// bounds are the first and the next offset of a partition; none of a topic that is not there.
func bounds(ctx context.Context, admin *kadm.Client, topic string, partition int32) (start, end int64, err error) {
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("its beginning: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("its end: %w", err)
	}
	first, _ := starts.Lookup(topic, partition)
	last, _ := ends.Lookup(topic, partition)
	return first.Offset, last.Offset, nil
}

func belongs(r *kgo.Record, scope domain.Scope) bool {
	if string(r.Key) == string(scope) {
		return true
	}
	for _, h := range r.Headers {
		if h.Key == kafka.HeaderScope && string(h.Value) == string(scope) {
			return true
		}
	}
	return false
}

func (s Source) write(ctx context.Context, r *kgo.Record, to sink) error {
	out := record{Partition: r.Partition, Offset: r.Offset, At: r.Timestamp.UTC(), Key: string(r.Key), Headers: map[string]string{}}
	for _, h := range r.Headers {
		out.Headers[h.Key] = text(h.Value)
	}
	var err error
	switch {
	case json.Valid(r.Value):
		out.Value = r.Value
	case r.Value != nil:
		if out.Value, err = json.Marshal(r.Value); err != nil {
			return err
		}
	}
	if out.Content, err = s.opened(ctx, r); err != nil {
		return err
	}
	line, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return to(append(line, '\n'))
}

// opened is what a command asks for, where it can be opened.
func (s Source) opened(ctx context.Context, r *kgo.Record) (json.RawMessage, error) {
	if s.Keys == nil || r.Topic != s.Kafka.Topics.Commands() && r.Topic != s.Kafka.Topics.Parked() {
		return nil, nil
	}
	command, err := s.Schema.DecodeCommand(ctx, s.Keys, r.Value)
	switch {
	case errors.Is(err, streams.ErrScopeErased):
		return json.RawMessage(`"[erased]"`), nil
	case errors.Is(err, streams.ErrKeysUnreachable):
		return nil, err
	case err != nil:
		return nil, nil //nolint:nilerr // what no reader can take is shown as it is
	}
	return s.Schema.Plain(command.Body)
}
