package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
)

// The headers of what a policy parks besides those of a parked command, and of what ends a parked item.
const (
	HeaderParkedPolicy = "parked_policy"
	HeaderParkedEvent  = "parked_event"
	HeaderParkedType   = "parked_event_type"
	HeaderParkedItem   = "parked_item" // of which item this is the end
	HeaderParkedEnd    = "parked_end"  // replayed or dropped

	// What Watermill's poison queue calls the reason.
	headerPoisoned = "reason_poisoned"
)

// ParkedItem is something that could not be handled: a command that no writer could decide, or an event that a policy
// failed on. It is sealed as it was.
type ParkedItem struct {
	ID        string // the same in every era, and of what is parked twice
	Scope     domain.Scope
	CommandID string // of a command whose headers could be read
	Policy    string // that failed on an event; empty: it is a command
	EventID   string
	EventType string
	Reason    string
	Era       int // where the command, or the event's commit, lay
	Partition int32
	Offset    int64
	At        time.Time
	Value     []byte // of Parked, not of ReadParked

	// End is what became of it: empty, EndReplayed or EndDropped; then when, and why.
	End    string
	EndAt  time.Time
	EndWhy string
}

// What becomes of a parked item.
const (
	EndReplayed = "replayed"
	EndDropped  = "dropped"
)

// ErrNotParked says that there is no such item.
var ErrNotParked = errors.New("nothing is parked under this id: see `cairn parked list --all`")

// ReadParked reads the parked topic to its end: every item, the oldest first, with what became of it, without the values.
func (c Config) ReadParked(ctx context.Context) ([]ParkedItem, error) {
	items := map[string]ParkedItem{}
	ended := map[string]ParkedItem{}
	err := c.eachParked(ctx, func(r *kgo.Record) {
		if of, end, ok := parkedEnd(r); ok {
			ended[of] = end
			return
		}
		// A crash between parking something and noting so leaves it twice: it is the same item.
		if i := parkedItem(r); i.ID != "" {
			if was, known := items[i.ID]; !known || i.At.Before(was.At) {
				items[i.ID] = i
			}
		}
	})
	if err != nil {
		return nil, err
	}
	all := make([]ParkedItem, 0, len(items))
	for id, i := range items {
		e := ended[id]
		i.End, i.EndAt, i.EndWhy = e.End, e.EndAt, e.EndWhy
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b ParkedItem) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Offset, b.Offset), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// eachParked hands out every record of the parked topic, as it stands now.
func (c Config) eachParked(ctx context.Context, each func(*kgo.Record)) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	topic := c.Topics.Parked()
	from, ends, err := c.bounds(ctx, client, topic)
	if err != nil {
		return err
	}
	return c.readTo(ctx, topic, from, ends, each)
}

// readTo hands out the records of partitions of a topic up to their ends.
func (c Config) readTo(ctx context.Context, topic string, from map[int32]kgo.Offset, ends map[int32]int64, each func(*kgo.Record)) error {
	if len(ends) == 0 {
		return nil
	}
	client, err := c.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for len(ends) > 0 {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range records {
			if end, open := ends[r.Partition]; open && r.Offset < end {
				each(r)
				if r.Offset == end-1 {
					delete(ends, r.Partition)
				}
			}
		}
	}
	return nil
}

// parkedEnd is what became of which item, if a record says that.
func parkedEnd(r *kgo.Record) (of string, end ParkedItem, ok bool) {
	id, ok := find(r.Headers, HeaderParkedItem)
	if !ok {
		return "", end, false
	}
	what, _ := find(r.Headers, HeaderParkedEnd)
	why, _ := find(r.Headers, HeaderParkedReason)
	return string(id), ParkedItem{End: string(what), EndAt: r.Timestamp.UTC(), EndWhy: string(why)}, true
}

// parkedItem is what a record says, but for its value. A record without an id is none of Cairn's.
func parkedItem(r *kgo.Record) ParkedItem {
	text := func(name string) string {
		v, _ := find(r.Headers, name)
		return string(v)
	}
	i := ParkedItem{
		ID: text(HeaderParkedID), Scope: domain.Scope(text(HeaderScope)), CommandID: text(HeaderCommandID),
		Policy: text(HeaderParkedPolicy), EventID: text(HeaderParkedEvent), EventType: text(HeaderParkedType),
		Reason: cmp.Or(text(HeaderParkedReason), text(headerPoisoned)), At: r.Timestamp.UTC(),
	}
	i.Era, _ = strconv.Atoi(text(HeaderParkedEra))
	partition, _ := strconv.ParseInt(text(HeaderParkedPartition), 10, 32)
	i.Partition = int32(partition)
	i.Offset, _ = strconv.ParseInt(text(HeaderParkedOffset), 10, 64)
	return i
}

// Parked is the item of that id, with its value. Errors: ErrNotParked.
func (c Config) Parked(ctx context.Context, id string) (item ParkedItem, err error) {
	var end ParkedItem
	err = c.eachParked(ctx, func(r *kgo.Record) {
		if of, e, ok := parkedEnd(r); ok {
			if of == id {
				end = e
			}
		} else if i := parkedItem(r); i.ID == id && (item.ID == "" || i.At.Before(item.At)) {
			item = i
			item.Value = r.Value
		}
	})
	switch {
	case err != nil:
		return ParkedItem{}, err
	case id == "" || item.ID == "":
		return ParkedItem{}, fmt.Errorf("%s: %w", id, ErrNotParked)
	}
	item.End, item.EndAt, item.EndWhy = end.End, end.EndAt, end.EndWhy
	return item, nil
}

// EndParked notes what became of an item, in the partition of its scope. The item itself stays where it is.
func (c Config) EndParked(ctx context.Context, i ParkedItem, end, why string) error {
	client, err := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return err
	}
	defer client.Close()
	r := &kgo.Record{Topic: c.Topics.Parked(), Partition: i.Partition % c.Topics.N(), Headers: []kgo.RecordHeader{
		{Key: HeaderParkedItem, Value: []byte(i.ID)}, {Key: HeaderParkedEnd, Value: []byte(end)}, {Key: HeaderParkedReason, Value: []byte(why)},
	}}
	if i.Scope.Valid() {
		r.Partition, r.Key = c.Topics.PartitionOf(i.Scope), []byte(i.Scope)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderScope, Value: []byte(i.Scope)})
	}
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("note what became of %s: %w", i.ID, err)
	}
	return nil
}
