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
	ID        string // partition and offset in the parked topic, such as 3-17
	Scope     domain.Scope
	CommandID string // of a command whose headers could be read
	Policy    string // that failed on an event; empty: it is a command
	EventID   string
	EventType string
	Reason    string
	Partition int32 // where the command, or the event's commit, lay
	Offset    int64
	At        time.Time
	Value     []byte

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

// what tells whether two items are the same thing, parked twice: a crash between parking it and noting so leaves two.
func (i ParkedItem) what() string {
	if i.Policy != "" {
		return i.Policy + " " + i.EventID
	}
	return fmt.Sprint(i.Partition, " ", i.Offset)
}

// ErrNotParked says that there is no such item.
var ErrNotParked = errors.New("nothing is parked under this id: see `cairn parked list --all`")

// ReadParked reads the parked topic to its end: every item, the oldest first, with what became of it.
func (c Config) ReadParked(ctx context.Context) ([]ParkedItem, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topic := c.Topics.Parked()
	from, ends, err := c.bounds(ctx, client, topic)
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	records, err := c.readTo(ctx, topic, from, ends)
	if err != nil {
		return nil, err
	}
	return foldParked(records), nil
}

// readTo reads partitions of a topic up to their ends.
func (c Config) readTo(ctx context.Context, topic string, from map[int32]kgo.Offset, ends map[int32]int64) ([]*kgo.Record, error) {
	client, err := c.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []*kgo.Record
	for len(ends) > 0 {
		records, err := poll(ctx, client)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if end, open := ends[r.Partition]; open && r.Offset < end {
				all = append(all, r)
				if r.Offset == end-1 {
					delete(ends, r.Partition)
				}
			}
		}
	}
	return all, nil
}

// foldParked makes items of records.
func foldParked(records []*kgo.Record) []ParkedItem {
	var items []ParkedItem
	known := map[string]bool{}
	ended := map[string]ParkedItem{}
	for _, r := range records {
		if of, ok := find(r.Headers, HeaderParkedItem); ok {
			end, _ := find(r.Headers, HeaderParkedEnd)
			why, _ := find(r.Headers, HeaderParkedReason)
			ended[string(of)] = ParkedItem{End: string(end), EndAt: r.Timestamp.UTC(), EndWhy: string(why)}
			continue
		}
		if i := parkedItem(r); !known[i.what()] {
			known[i.what()] = true
			items = append(items, i)
		}
	}
	for n := range items {
		if e, ok := ended[items[n].ID]; ok {
			items[n].End, items[n].EndAt, items[n].EndWhy = e.End, e.EndAt, e.EndWhy
		}
	}
	slices.SortStableFunc(items, func(a, b ParkedItem) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	return items
}

func parkedItem(r *kgo.Record) ParkedItem {
	text := func(name string) string {
		v, _ := find(r.Headers, name)
		return string(v)
	}
	i := ParkedItem{
		ID: fmt.Sprintf("%d-%d", r.Partition, r.Offset), Scope: domain.Scope(text(HeaderScope)), CommandID: text(HeaderCommandID),
		Policy: text(HeaderParkedPolicy), EventID: text(HeaderParkedEvent), EventType: text(HeaderParkedType),
		Reason: cmp.Or(text(HeaderParkedReason), text(headerPoisoned)), At: r.Timestamp.UTC(), Value: r.Value,
	}
	partition, _ := strconv.ParseInt(text(HeaderParkedPartition), 10, 32)
	i.Partition = int32(partition)
	i.Offset, _ = strconv.ParseInt(text(HeaderParkedOffset), 10, 64)
	return i
}

// Parked is the item of that id. Errors: ErrNotParked.
func (c Config) Parked(ctx context.Context, id string) (ParkedItem, error) {
	items, err := c.ReadParked(ctx)
	if err != nil {
		return ParkedItem{}, err
	}
	for _, i := range items {
		if i.ID == id {
			return i, nil
		}
	}
	return ParkedItem{}, fmt.Errorf("%s: %w", id, ErrNotParked)
}

// EndParked notes what became of an item. The item itself stays where it is.
func (c Config) EndParked(ctx context.Context, i ParkedItem, end, why string) error {
	client, err := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return err
	}
	defer client.Close()
	partition, _, _ := strings.Cut(i.ID, "-")
	p, err := strconv.ParseInt(partition, 10, 32)
	if err != nil {
		return fmt.Errorf("%s: %w", i.ID, ErrNotParked)
	}
	r := &kgo.Record{Topic: c.Topics.Parked(), Partition: int32(p), Key: []byte(i.Scope), Headers: []kgo.RecordHeader{
		{Key: HeaderParkedItem, Value: []byte(i.ID)}, {Key: HeaderParkedEnd, Value: []byte(end)}, {Key: HeaderParkedReason, Value: []byte(why)},
	}}
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("note what became of %s: %w", i.ID, err)
	}
	return nil
}
