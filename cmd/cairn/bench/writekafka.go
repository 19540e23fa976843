package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// KafkaOptions say where a benchmark of writing on a Kafka cluster runs.
type KafkaOptions struct {
	Options
	Brokers []string
	Topics  kafka.Topics // the prefix is the benchmark's own
	Binary  string       // this program, for the writers that are killed
}

// WriteOnKafka measures asks on a Kafka cluster as Write does on the embedded broker, and then what is seen of a writer
// that joins, leaves and is killed. Its topics have a prefix of their own and are deleted at the end.
func WriteOnKafka(ctx context.Context, options KafkaOptions) (report Report, err error) {
	options.Options = options.complete()
	if options.Dir == "" {
		if options.Dir, err = scratch(); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(options.Dir)) }()
	}
	report = Report{Bench: "write", Machine: ThisMachine()}
	options.Topics.Prefix = "bench-" + strings.ToLower(rand.Text()[:8])
	defer func() { err = errors.Join(err, dropTopics(options.Brokers, options.Topics.Prefix)) }()
	if report.Figures, err = onKafka(ctx, options); err != nil {
		return report, err
	}
	options.Topics.Prefix += "-two"
	figures, err := failover(ctx, options)
	report.Figures = append(report.Figures, figures...)
	return report, err
}

func onKafka(ctx context.Context, options KafkaOptions) (figures []Figure, err error) {
	mode := fmt.Sprintf("kafka, %d replicas, %d partitions", max(1, options.Topics.Replication), options.Topics.N())
	fmt.Fprintf(options.Progress, "%s: starting Postgres, a writer and an asker\n", mode)
	states, stopDatabase, err := database(ctx, filepath.Join(options.Dir, "postgres"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopDatabase()) }()
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return nil, err
	}
	r, err := runRing(ctx, kafka.Config{Seeds: options.Brokers, Topics: options.Topics}, schema, states)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return levels(ctx, options.Options, r, mode, func(askers int) bool { return askers == 1 })
}

// dropTopics deletes the topics and groups of the benchmark.
func dropTopics(brokers []string, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	mine := func(name string) bool { return !strings.HasPrefix(name, prefix) }
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("bench: topics of %s: %w", prefix, err)
	}
	if names := slices.DeleteFunc(topics.Names(), mine); len(names) > 0 {
		if _, err := admin.DeleteTopics(ctx, names...); err != nil {
			return fmt.Errorf("bench: delete the topics of %s: %w", prefix, err)
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("bench: groups of %s: %w", prefix, err)
	}
	if names := slices.DeleteFunc(groups.Groups(), mine); len(names) > 0 {
		_, err = admin.DeleteGroups(ctx, names...)
	}
	return err
}
