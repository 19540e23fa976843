// Package pubsub is a Watermill publisher and subscriber on franz-go, for what is of low volume: at most one
// message of a partition is in hand at a time.
//
// Cairn runs on the Publisher alone: handlers/policies parks with it what it can't handle. The log is not read through the
// Subscriber, since a record of the log counts only under the acceptance rule, which no consumer group knows: policies have
// a Watermill subscriber of their own on streams.Tailer (handlers/policies, source). The Subscriber is the other half, for
// topics without that rule, such as the parked one or the feeds: it reads back what the Publisher wrote in Watermill's
// conformance suite, which needs both, and shows so that the Publisher keeps its promises.
package pubsub

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
)

// HeaderID is the header that carries a message's id. It is the one that Watermill's own Kafka driver uses.
const HeaderID = "_watermill_message_uuid"

// ErrClosed is the answer of a publisher or subscriber that was closed.
var ErrClosed = errors.New("pubsub: closed")

// Config is for publishers and subscribers. Zero values have the default that stands beside them.
type Config struct {
	// Seeds are brokers as "host:port".
	Seeds []string
	// Options are added to every client: TLS, SASL, a dialer.
	Options []kgo.Opt
	// Key is a published message's record key, by which messages share a partition and so an order. Nil, or
	// a nil key: any partition.
	Key func(topic string, m *message.Message) []byte
	// Group is the consumer group among which messages are shared out. Empty: every subscription gets all
	// messages, from the first.
	Group string
	// NackPause is how long a message that was not taken waits until it comes again: 100 ms.
	NackPause time.Duration
	// SessionTimeout is how long a member of the group may be silent: 10 s.
	SessionTimeout time.Duration
	// Partitions and Replication are of topics that SubscribeInitialize makes: 1 and 1.
	Partitions  int32
	Replication int16
	Log         *slog.Logger // nil: nowhere
}

func (c *Config) complete() error {
	if len(c.Seeds) == 0 {
		return errors.New("pubsub: no brokers")
	}
	c.NackPause = cmp.Or(c.NackPause, 100*time.Millisecond)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.Partitions = cmp.Or(c.Partitions, 1)
	c.Replication = cmp.Or(c.Replication, 1)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

func (c *Config) client(options ...kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{kgo.SeedBrokers(c.Seeds...), kgo.ClientID("cairn")}, options...)
	return kgo.NewClient(append(all, c.Options...)...)
}
