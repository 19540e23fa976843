package kafka

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the topics file
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

//go:embed topics.json
var topicsFile []byte

// Topics are the topics of one installation. The zero value is that of the embedded broker.
type Topics struct {
	Prefix      string `json:"prefix,omitempty"`      // empty: cairn
	Partitions  int32  `json:"partitions,omitempty"`  // of every topic; zero: 1
	Era         int    `json:"era,omitempty"`         // zero: 1
	Replication int16  `json:"replication,omitempty"` // zero: 1
	// InSync is min.insync.replicas; zero: one less than Replication, at least 1.
	InSync int `json:"in_sync,omitempty"`
}

type topicsJSON struct {
	Prefix   string  `json:"prefix"`
	Era      int     `json:"era"`
	Embedded Topics  `json:"embedded"`
	Kafka    Topics  `json:"kafka"`
	Topics   []topic `json:"topics"`
}

type topic struct {
	Name      string            `json:"name"`
	Ephemeral bool              `json:"ephemeral"`
	Config    map[string]string `json:"config"`
}

func readTopicsFile() topicsJSON {
	var f topicsJSON
	if err := json.Unmarshal(topicsFile, &f); err != nil {
		panic(fmt.Sprintf("kafka: topics.json: %v", err)) // part of the program's text; a test reads it
	}
	for _, t := range []*Topics{&f.Embedded, &f.Kafka} {
		t.Prefix, t.Era = f.Prefix, f.Era
	}
	return f
}

// EmbeddedTopics are those of the embedded broker, from the program's topics file.
func EmbeddedTopics() Topics { return readTopicsFile().Embedded }

// KafkaTopics are those of a Kafka cluster, from the program's topics file.
func KafkaTopics() Topics { return readTopicsFile().Kafka } //nolint:revive // Kafka's, beside those of the embedded broker

// ReadTopics reads an operator's topics file: a JSON object with any of prefix, partitions, era,
// replication and in_sync. What it leaves out is taken from defaults.
func ReadTopics(r io.Reader, defaults Topics) (Topics, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return Topics{}, fmt.Errorf("topics file: %w", err)
	}
	t := defaults
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return Topics{}, fmt.Errorf("topics file: %w", err)
	}
	if t.Partitions < 0 || t.Era < 0 || t.Replication < 0 || t.InSync < 0 {
		return Topics{}, errors.New("topics file: a negative number")
	}
	return t, nil
}

func (t Topics) name(topic string) string { return cmp.Or(t.Prefix, "cairn") + "." + topic }

// Commands is the topic of wishes.
func (t Topics) Commands() string { return t.name("commands") }

// Log is the topic that is the truth.
func (t Topics) Log() string { return t.name("log") }

// Parked keeps what could not be handled.
func (t Topics) Parked() string { return t.name("parked") }

// Replies carries the answers to repeated commands.
func (t Topics) Replies() string { return t.name("replies") }

// Live carries what is provisional.
func (t Topics) Live() string { return t.name("live") }

// Feed is the topic of a feed, such as "threads".
func (t Topics) Feed(name string) string { return t.name("feed." + name) }

// N is the number of partitions.
func (t Topics) N() int32 { return cmp.Or(t.Partitions, 1) }

// CurrentEra is the era that writers write in.
func (t Topics) CurrentEra() int { return cmp.Or(t.Era, 1) }

// PartitionOf is the partition of a scope.
func (t Topics) PartitionOf(scope domain.Scope) int32 { return PartitionOf(scope, t.N()) }

// clusterOf is which of two clusters a topic stands on, which may be the same.
type clusterOf bool

const (
	lasting   clusterOf = false // commands, log and parked
	ephemeral clusterOf = true  // replies and live
)

// ensure creates the topics of one cluster that are missing, waits until they are
// served, and checks those that were there. Its error names everything that is wrong at once.
func (t Topics) ensure(ctx context.Context, client *kgo.Client, of clusterOf) error {
	want := t.settings(of)
	created, err := t.create(ctx, client, want)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(want))
	partitions, err := Served(ctx, client, names...)
	if err != nil {
		return err
	}
	var faults []error
	admin := kadm.NewClient(client)
	for _, name := range names {
		if !created[name] {
			faults = append(faults, t.check(ctx, admin, name, partitions[name], want[name]))
		}
	}
	return errors.Join(faults...)
}

// settings are those of each topic by its name.
func (t Topics) settings(of clusterOf) map[string]map[string]*string {
	inSync := fmt.Sprint(cmp.Or(t.InSync, max(1, int(t.Replication)-1)))
	all := map[string]map[string]*string{}
	for _, want := range readTopicsFile().Topics {
		if clusterOf(want.Ephemeral) == of {
			config := map[string]*string{"min.insync.replicas": &inSync}
			for k, v := range want.Config {
				config[k] = &v
			}
			all[t.name(want.Name)] = config
		}
	}
	return all
}

// create makes the topics that are missing, all in one request, and answers which it made.
func (t Topics) create(ctx context.Context, client *kgo.Client, want map[string]map[string]*string) (map[string]bool, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(servedWithin.Milliseconds())
	for name, config := range want {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, t.N(), cmp.Or(t.Replication, 1)
		for k, v := range config {
			setting := kmsg.NewCreateTopicsRequestTopicConfig()
			setting.Name, setting.Value = k, v
			topic.Configs = append(topic.Configs, setting)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("create topics: %w", err)
	}
	created := map[string]bool{}
	var faults []error
	for _, topic := range resp.Topics {
		switch err := kerr.ErrorForCode(topic.ErrorCode); {
		case err == nil:
			created[topic.Topic] = true
		case !errors.Is(err, kerr.TopicAlreadyExists):
			faults = append(faults, fmt.Errorf("create topic %s: %w", topic.Topic, err))
		}
	}
	return created, errors.Join(faults...)
}

// check compares a topic with what it should be.
func (t Topics) check(ctx context.Context, admin *kadm.Client, name string, partitions int32, want map[string]*string) error {
	var faults []error
	if partitions != t.N() {
		faults = append(faults, fmt.Errorf("topic %s has %d partitions, not %d: a scope would lie elsewhere; set the number in the topics file, or copy the log with `cairn log migrate`", name, partitions, t.N()))
	}
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return fmt.Errorf("topic %s: %w", name, errors.Join(append(faults, err)...))
	}
	for _, resource := range configs {
		if resource.Err != nil {
			faults = append(faults, fmt.Errorf("settings of topic %s: %w", name, resource.Err))
		}
		for _, c := range resource.Configs {
			if w, ok := want[c.Key]; ok && checked(c.Key) && c.MaybeValue() != *w {
				faults = append(faults, fmt.Errorf("topic %s has %s=%s, not %s", name, c.Key, c.MaybeValue(), *w))
			}
		}
	}
	return errors.Join(faults...)
}

// checked are the settings that lose data or refuse records when they are wrong. The others are an operator's business.
func checked(key string) bool {
	switch key {
	case "cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes":
		return true
	default:
		return false
	}
}

// CheckEnds refuses a log that ends below what was read from it: a broker that lost its end, or was put back from an old
// copy, would hand out the same offsets twice. Stored are the checkpoints of one reader by partition.
func (t Topics) CheckEnds(ctx context.Context, admin *kadm.Client, reader string, stored map[int32]streams.Checkpoint) error {
	ends, err := topicEnds(ctx, admin, t.Log())
	if err != nil {
		return err
	}
	var faults []error
	for partition, c := range stored {
		end, _ := ends.Lookup(t.Log(), partition)
		if c.Next > end.Offset {
			faults = append(faults, fmt.Errorf("partition %d of %s ends at %d, but %s has read it to %d: the log lost its end (put it back from a later copy, or look at `cairn repair`)", partition, t.Log(), end.Offset, reader, c.Next))
		}
	}
	return errors.Join(faults...)
}

// Ensure creates the topics that are missing, waits until they are served, checks those that were there, and compares the
// log's ends with Stored. Its error names everything that is wrong at once.
func (c Config) Ensure(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	live, err := c.liveClient()
	if err != nil {
		return err
	}
	defer live.Close()
	if err := errors.Join(c.Topics.ensure(ctx, client, lasting), c.Topics.ensure(ctx, live, ephemeral)); err != nil {
		return err
	}
	if c.Stored == nil {
		return nil
	}
	stored := make(map[int32]streams.Checkpoint, c.Topics.N())
	for p := range c.Topics.N() {
		if stored[p], err = c.stored(ctx, p); err != nil {
			return err
		}
		if err := c.Topics.CheckEra("the writer", p, stored[p]); err != nil {
			return err
		}
	}
	admin := kadm.NewClient(client)
	return errors.Join(c.Topics.CheckEnds(ctx, admin, "the writer", stored), c.Topics.checkCommands(ctx, admin, stored))
}

// checkCommands refuses commands that end below what was decided of them: new ones would get the offsets of decided ones, and
// never be decided.
func (t Topics) checkCommands(ctx context.Context, admin *kadm.Client, stored map[int32]streams.Checkpoint) error {
	ends, err := topicEnds(ctx, admin, t.Commands())
	if err != nil {
		return err
	}
	var faults []error
	for partition, c := range stored {
		end, _ := ends.Lookup(t.Commands(), partition)
		if after := c.Acceptance.After; after.Era == t.CurrentEra() && after.Offset >= end.Offset {
			faults = append(faults, fmt.Errorf("partition %d of %s ends at %d, but the command at %d was decided: the topic lost its end (put it back from a later copy, or look at `cairn repair`)", partition, t.Commands(), end.Offset, after.Offset))
		}
	}
	return errors.Join(faults...)
}
