package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// giveUpAfter is how long a broker's answer may be overdue.
const giveUpAfter = 4 * time.Second

// Config says where the topics are. It is the same for everything in this package.
type Config struct {
	// Seeds are brokers of the cluster that holds commands, log and parked, as "host:port".
	Seeds []string
	// LiveSeeds are brokers of the cluster that holds replies and live. Empty: Seeds.
	LiveSeeds []string
	// Options are added to every client: TLS, SASL, a dialer.
	Options []kgo.Opt
	// EachOptions makes more for each client: kgo's compression option can't be shared. Nil: none.
	EachOptions func() []kgo.Opt
	Topics      Topics
	// Log is where clients say what happens to them. Nil: nowhere.
	Log *slog.Logger
	// Stored is the writer's stored checkpoint of a partition, from which a reader that needs only the
	// acceptance state begins. Nil: such a reader begins at the log's first record.
	Stored func(ctx context.Context, partition int32) (streams.Checkpoint, error)
	// Voided are the offsets in a partition of the log that an operator voided: such a commit counts, but
	// without events. A reader asks once, when it begins. Nil: none.
	Voided func(ctx context.Context, partition int32) (map[int64]bool, error)
	// Around says what is stored about a position of a scope, so that a reader that begins in the middle of the log knows a
	// commit that does not follow from what lies before. It is asked once about each scope that the reader has not met; what
	// lies before the offset since is what it needs to know, and where less is stored nothing is said. Nil: the same.
	Around func(ctx context.Context, partition int32, since int64, scope domain.Scope, position uint64) (streams.Around, error)
	// Level is the format level that may be written now: types and schemas that are newer are not yet. Nil: everything.
	Level func() int
	// Tracer begins the spans of asking, deciding and appending. Its zero value passes on what comes.
	Tracer tracing.Tracer
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
}

// writes is a schema that writes what may be written now.
func (c Config) writes(schema *codec.Schema) *codec.Schema {
	if c.Level == nil {
		return schema
	}
	return schema.At(c.Level())
}

func (c Config) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

func (c Config) liveSeeds() []string {
	if len(c.LiveSeeds) > 0 {
		return c.LiveSeeds
	}
	return c.Seeds
}

// client is a client of the cluster that holds the log.
func (c Config) client(options ...kgo.Opt) (*kgo.Client, error) { return c.dial(c.Seeds, options) }

// liveClient is a client of the cluster that holds replies and live.
func (c Config) liveClient(options ...kgo.Opt) (*kgo.Client, error) {
	return c.dial(c.liveSeeds(), options)
}

func (c Config) dial(seeds []string, options []kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("cairn"),
		// A broker that stands still keeps its connections, and is given up only when an answer is overdue: with the client's
		// defaults that took more than a minute, one request after the other.
		kgo.DialTimeout(giveUpAfter), kgo.RequestTimeoutOverhead(giveUpAfter), kgo.ProduceRequestTimeout(giveUpAfter),
		kgo.FetchMaxWait(2 * time.Second), kgo.MetadataMinAge(250 * time.Millisecond)}
	if c.Log != nil {
		all = append(all, quiet(c.Log))
	}
	all = append(all, options...)
	all = append(all, c.Options...)
	if c.EachOptions != nil {
		all = append(all, c.EachOptions()...)
	}
	client, err := kgo.NewClient(all...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}

// stored asks Stored, or answers the start of the log.
func (c Config) stored(ctx context.Context, partition int32) (streams.Checkpoint, error) {
	if c.Stored == nil {
		return streams.Start(), nil
	}
	from, err := c.Stored(ctx, partition)
	if err != nil {
		return streams.Checkpoint{}, fmt.Errorf("stored checkpoint of partition %d: %w", partition, err)
	}
	return from, nil
}
