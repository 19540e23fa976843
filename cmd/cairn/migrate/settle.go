package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams/kafka"
)

// settle brings what reads the old log to its end. Projectors of a Cairn that runs do it themselves; where none run, or
// they are ended meanwhile, those of this process do.
func (m *move) settle(ctx context.Context) error {
	tailer, err := kafka.NewTailer(m.From.Kafka)
	if err != nil {
		return err
	}
	defer tailer.Close()
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: m.read, Tailer: tailer, Schema: m.schema, Projectors: m.Projectors(m.read), Log: m.Log, Era: m.From.Kafka.Topics.CurrentEra(),
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()
	err = m.level(ctx)
	if err == nil {
		err = m.settleStates(ctx)
	}
	stop()
	return errors.Join(err, <-ended)
}

// level waits until every read model has read the old log to its end.
func (m *move) level(ctx context.Context) error {
	names := map[string]bool{} // of read models: some have two revisions compiled in
	for _, p := range m.Projectors(m.read) {
		names[p.Name()] = true
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		states, err := projections.List(ctx, m.read)
		if err != nil {
			return err
		}
		level, behind := map[string]bool{}, int64(0)
		for _, s := range states {
			if int(s.Partition) >= len(m.closed) {
				return fmt.Errorf("the read model %s has a checkpoint for partition %d, and the log has %d: set CAIRN_PARTITIONS or CAIRN_TOPICS_FILE as for the servers", s.Projection, s.Partition, len(m.closed))
			}
			if s.Stopped != nil {
				return fmt.Errorf("%w; a migration carries only read models that have the whole log", s.Stopped)
			}
			end := m.closed[s.Partition]
			if s.Checkpoint.Acceptance == end.Acceptance {
				level[fmt.Sprint(s.Projection, "/", s.Partition)] = true
				continue
			}
			behind += max(1, end.Next-s.Checkpoint.Next)
		}
		if behind == 0 && len(level) >= len(m.closed)*len(names) {
			return nil
		}
		m.Progress.Step("records that read models have not read yet", behind, 0)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// settleStates brings the stored states of the writers to the end.
func (m *move) settleStates(ctx context.Context) error {
	config := kafka.WriterConfig{
		Config: m.From.Kafka, Schema: m.schema, Keys: m.keys, States: m.states, History: events.New(projections.NewDB(m.read)), Now: m.Now,
	}
	config.Log = m.Log
	for p, end := range m.closed {
		at, err := kafka.Settle(ctx, config, int32(p))
		if err != nil {
			return fmt.Errorf("writer states of partition %d: %w", p, err)
		}
		if at.Acceptance != end.Acceptance {
			return fmt.Errorf("writer states of partition %d are not those of its end", p)
		}
	}
	return nil
}
