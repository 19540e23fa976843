package history

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Commands is what the topic of commands still held when a log had been read. Nobody knows what was trimmed before.
type Commands struct {
	// Era is that of the topic: only commits of this era name offsets in it.
	Era int
	// Partitions holds each partition's commands, in order of their offsets.
	Partitions [][]Wish
	// Ends are the offsets after the last record.
	Ends []int64
}

// Wish is one record of the topic of commands, as its headers name it.
type Wish struct {
	Offset    int64
	Digest    [sha256.Size]byte
	Scope     domain.Scope
	CommandID string
	// Filler says that it only takes an offset: a restore or a repair put it where a decided command was.
	Filler bool
	// Nobodys says why a writer must reject it under no scope and no id. Empty: it names both.
	Nobodys string
}

// NewCommands makes Commands of records, which are those of each partition in order.
func NewCommands(era int, partitions int32, records ...*kgo.Record) *Commands {
	c := &Commands{Era: era, Partitions: make([][]Wish, partitions), Ends: make([]int64, partitions)}
	for _, r := range records {
		c.add(r)
	}
	return c
}

func (c *Commands) add(r *kgo.Record) {
	p := r.Partition
	c.Partitions[p] = append(c.Partitions[p], wish(r, len(c.Partitions)))
	c.Ends[p] = max(c.Ends[p], r.Offset+1)
}

func wish(r *kgo.Record, partitions int) Wish {
	scope, _ := header(r, kafka.HeaderScope)
	id, _ := header(r, kafka.HeaderCommandID)
	w := Wish{
		Offset: r.Offset, Digest: digest(r), Scope: domain.Scope(scope), CommandID: id,
		Filler: r.Key == nil && r.Value == nil && len(r.Headers) == 0,
	}
	if _, err := uuid.Parse(id); err != nil || !w.Scope.Valid() {
		w.Nobodys = "its headers name no scope and command id"
	} else if kafkaPartition(w.Scope, partitions) != r.Partition {
		w.Nobodys = "its scope belongs to another partition"
	}
	return w
}

// readCommands reads the topic of commands to its end. Writers may trim it meanwhile: then it begins anew.
func readCommands(ctx context.Context, client *kgo.Client, topics kafka.Topics) (*Commands, error) {
	for {
		c := NewCommands(topics.CurrentEra(), topics.N())
		starts, ends, err := bounds(ctx, client, topics.Commands(), topics.N())
		if err != nil {
			return nil, err
		}
		c.Ends = ends
		err = readTopic(ctx, client, topics.Commands(), starts, ends, c.add)
		if ctx.Err() == nil && errors.Is(err, kerr.OffsetOutOfRange) {
			continue
		}
		return c, err
	}
}
