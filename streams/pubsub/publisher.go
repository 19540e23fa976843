package pubsub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
)

// deliverWithin is how long the brokers may take to keep a message.
const deliverWithin = 30 * time.Second

// Publisher implements message.Publisher.
type Publisher struct {
	config Config
	client *kgo.Client

	mu     sync.RWMutex
	closed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher makes a publisher; it connects when it is first used.
func NewPublisher(config Config) (*Publisher, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	client, err := config.client(
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(4<<20),
		kgo.RecordDeliveryTimeout(deliverWithin), kgo.AllowIdempotentProduceCancellation(), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
	)
	if err != nil {
		return nil, fmt.Errorf("pubsub: %w", err)
	}
	return &Publisher{config: config, client: client}, nil
}

// Publish returns when the brokers have all messages, or with the first that they may not have. It does not
// look at the messages' contexts: what has failed because its time was over must still be kept somewhere.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return ErrClosed
	}
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = p.record(topic, m)
	}
	if err := p.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		return fmt.Errorf("pubsub: publish to %s: %w", topic, err)
	}
	return nil
}

// Close waits for what is being published.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.client.Close()
	}
	return nil
}

// record is a message as it stands in a topic: its metadata are the headers.
func (p *Publisher) record(topic string, m *message.Message) *kgo.Record {
	r := &kgo.Record{Topic: topic, Value: m.Payload, Headers: []kgo.RecordHeader{{Key: HeaderID, Value: []byte(m.UUID)}}}
	if p.config.Key != nil {
		r.Key = p.config.Key(topic, m)
	}
	names := make([]string, 0, len(m.Metadata))
	for name := range m.Metadata {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(m.Metadata[name])})
	}
	return r
}

// messageOf is a record as a message. One that no Watermill publisher wrote is named after its place.
func messageOf(r *kgo.Record) *message.Message {
	id := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	metadata := make(message.Metadata, len(r.Headers))
	for _, h := range r.Headers {
		if h.Key == HeaderID {
			id = string(h.Value)
			continue
		}
		metadata[h.Key] = string(h.Value)
	}
	m := message.NewMessage(id, r.Value)
	m.Metadata = metadata
	return m
}
