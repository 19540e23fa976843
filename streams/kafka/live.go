package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Live implements streams.Live on the topic of provisional frames. Nothing is kept, and nobody waits for it.
type Live struct {
	config   Config
	keys     streams.Keys
	producer *kgo.Client
}

// NewLive makes a Live; it connects when it is first used.
func NewLive(config Config, keys streams.Keys) (*Live, error) {
	producer, err := config.liveClient(
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0),
		// One request in flight keeps frames in order, and joins those of many runs into one request.
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordRetries(0), kgo.MaxBufferedRecords(1<<14),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return nil, err
	}
	return &Live{config: config, keys: keys, producer: producer}, nil
}

// Close drops what was not sent yet. Follows end with their contexts.
func (l *Live) Close() { l.producer.Close() }

type wireFrame struct {
	Stream  string `json:"stream"`
	RunID   string `json:"run"`
	Turn    int    `json:"turn"`
	Attempt int    `json:"attempt"`
	N       int    `json:"n"`
	Kind    string `json:"kind"`
	Offset  int    `json:"offset,omitempty"`
	Blocks  int    `json:"blocks,omitempty"`
	Key     int    `json:"key,omitempty"`
	Sealed  []byte `json:"sealed,omitempty"`
}

type frameContent struct {
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// frameContext binds sealed content to its place in its run.
func frameContext(scope domain.Scope, f wireFrame) string {
	return string(scope) + "\nlive\n" + f.RunID + "\n" + strconv.Itoa(f.Turn) + "." + strconv.Itoa(f.Attempt) + "." + strconv.Itoa(f.N)
}

// Publish seals a frame and hands it over. Its error says that it was not handed over; whether it arrives, nobody learns.
func (l *Live) Publish(ctx context.Context, f streams.LiveFrame) error {
	w := wireFrame{
		Stream: string(f.Stream), RunID: f.RunID, Turn: f.Turn, Attempt: f.Attempt, N: f.N,
		Kind: f.Kind, Offset: f.Offset, Blocks: f.Blocks,
	}
	if f.Text != "" || len(f.Data) > 0 {
		plain, err := json.Marshal(frameContent{Text: f.Text, Data: f.Data})
		if err != nil {
			return fmt.Errorf("live frame: %w", err)
		}
		key, err := l.keys.Current(ctx, f.Scope)
		if err != nil {
			return fmt.Errorf("live frame: key of %s: %w", f.Scope, err)
		}
		w.Key = key.Version
		if w.Sealed, err = codec.SealBytes(key, frameContext(f.Scope, w), plain); err != nil {
			return fmt.Errorf("live frame: %w", err)
		}
	}
	value, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("live frame: %w", err)
	}
	l.producer.TryProduce(context.WithoutCancel(ctx), &kgo.Record{
		Topic: l.config.Topics.Live(), Partition: l.config.Topics.PartitionOf(f.Scope),
		Key: []byte(f.Scope), Value: value, Headers: traced(nil, tracing.Parent(ctx)),
	}, nil)
	return nil
}

// Follow implements streams.Live. A frame that can't be opened is dropped: its scope was erased, or its key can't be had now.
func (l *Live) Follow(ctx context.Context, handle func(streams.LiveFrame)) error {
	topic := l.config.Topics.Live()
	ends, err := offsetsAtEnd(ctx, l.producer, topic)
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	for p, end := range ends {
		at[p] = kgo.NewOffset().At(end)
	}
	client, err := l.config.liveClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		// Frames that are gone are superseded by what was committed.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		records, err := pollEphemeral(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range records {
			f, err := l.open(ctx, r)
			if err != nil {
				l.config.log().Debug("a live frame is dropped", "partition", r.Partition, "offset", r.Offset, "error", err)
				continue
			}
			handle(f)
		}
	}
}

func (l *Live) open(ctx context.Context, r *kgo.Record) (streams.LiveFrame, error) {
	var w wireFrame
	if err := json.Unmarshal(r.Value, &w); err != nil {
		return streams.LiveFrame{}, fmt.Errorf("live frame: %w", err)
	}
	f := streams.LiveFrame{
		Scope: domain.Scope(r.Key), Stream: domain.Stream(w.Stream), RunID: w.RunID, Turn: w.Turn, Attempt: w.Attempt, N: w.N,
		Kind: w.Kind, Offset: w.Offset, Blocks: w.Blocks, Trace: traceOf(r.Headers),
	}
	if len(w.Sealed) == 0 {
		return f, nil
	}
	key, err := l.keys.Version(ctx, f.Scope, w.Key)
	if err != nil {
		return f, fmt.Errorf("live frame: key %d of %s: %w", w.Key, f.Scope, err)
	}
	plain, err := codec.OpenBytes(key, frameContext(f.Scope, w), w.Sealed)
	if err != nil {
		return f, fmt.Errorf("live frame: %w", err)
	}
	var content frameContent
	if err := json.Unmarshal(plain, &content); err != nil {
		return f, fmt.Errorf("live frame: %w", err)
	}
	f.Text, f.Data = content.Text, content.Data
	return f, nil
}
