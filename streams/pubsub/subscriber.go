package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Subscriber implements message.Subscriber and message.SubscribeInitializer. A message that is not taken
// comes again and holds up those behind it in its partition. Messages come at least once, and each
// partition's in order.
type Subscriber struct {
	config Config
	life   context.Context //nolint:containedctx // ends when Close is called; every subscription belongs to it
	end    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber makes a subscriber; it connects when something is subscribed to.
func NewSubscriber(config Config) (*Subscriber, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Subscriber{config: config}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// SubscribeInitialize makes the topic if it is missing, and returns when it is served: who publishes to it next may ask
// a broker that would else not have heard of it.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	client, err := s.config.client()
	if err != nil {
		return fmt.Errorf("pubsub: %w", err)
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(s.life, s.config.Partitions, s.config.Replication, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("pubsub: make topic %s: %w", topic, err)
	}
	if _, err := kafka.Served(s.life, client, topic); err != nil {
		return fmt.Errorf("pubsub: make topic %s: %w", topic, err)
	}
	return nil
}

// Subscribe hands out the topic's messages until ctx ends or Close is called; then the channel is closed.
// Where the group has no place yet, and where there is no group, they begin with the first.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(s.life, cancel)
	sub, err := newSubscription(ctx, s.config, topic)
	if err != nil {
		unbind()
		cancel()
		return nil, fmt.Errorf("pubsub: subscribe to %s: %w", topic, err)
	}
	s.running.Go(func() {
		defer cancel()
		defer unbind()
		sub.run()
	})
	return sub.out, nil
}

// Close ends every subscription and returns when all have stopped.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.running.Wait()
	return nil
}
