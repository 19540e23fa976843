package policies

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// messageOf is an event as a message, sealed as it stands in the log. Its metadata become the headers of the parked
// record, should it come to that.
func messageOf(policy string, r streams.Recorded) (*message.Message, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("event %s as a message: %w", r.ID, err)
	}
	m := message.NewMessage(r.ID, payload)
	for name, value := range map[string]string{
		kafka.HeaderScope: string(r.Scope), kafka.HeaderParkedPolicy: policy, kafka.HeaderParkedEvent: r.ID, kafka.HeaderParkedType: r.Type,
		kafka.HeaderParkedID: kafka.ParkedEvent(policy, r.ID), kafka.HeaderParkedEra: fmt.Sprint(r.Era),
		kafka.HeaderParkedPartition: fmt.Sprint(r.Place.Partition), kafka.HeaderParkedOffset: fmt.Sprint(r.Place.Offset),
	} {
		m.Metadata.Set(name, value)
	}
	if r.Trace != "" {
		m.Metadata.Set(kafka.HeaderTrace, r.Trace)
	}
	return m, nil
}

// recordedOf is the event of a message.
func recordedOf(payload []byte) (streams.Recorded, error) {
	var r streams.Recorded
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("a message that holds no event: %w", err)
	}
	return r, nil
}

// Key is the record key of a parked event, by which it lies in its scope's partition. For pubsub.Config.
func Key(_ string, m *message.Message) []byte { return []byte(m.Metadata.Get(kafka.HeaderScope)) }

// Opened is what a parked event says, opened, as JSON.
func Opened(ctx context.Context, schema *codec.Schema, keys streams.Keys, parked kafka.ParkedItem) (json.RawMessage, error) {
	r, err := recordedOf(parked.Value)
	if err != nil {
		return nil, err
	}
	plain := map[string]any{"type": r.Type, "stream": r.Stream, "version": r.Version, "position": r.Position, "data": r.Data}
	if len(r.Sealed) > 0 {
		text, _, err := schema.Text(ctx, keys, r)
		if err != nil {
			return nil, err
		}
		plain["content"] = json.RawMessage(text)
	}
	return json.Marshal(plain)
}
