package history

import (
	"cmp"
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Parked is a command or an event that was put aside because nobody could handle it.
type Parked struct {
	Partition int32
	Offset    int64
	// Policy failed on an event. Empty: it is a command.
	Policy string
	// What is the command's or the event's id, and Why the reason.
	What, Why string
}

// NewParked makes Parked of records. Those that only say what became of another are left out.
func NewParked(records ...*kgo.Record) []Parked {
	var all []Parked
	for _, r := range records {
		if _, end := header(r, kafka.HeaderParkedItem); end {
			continue
		}
		text := func(name string) string { v, _ := header(r, name); return v }
		all = append(all, Parked{
			Partition: r.Partition, Offset: r.Offset, Policy: text(kafka.HeaderParkedPolicy),
			What: cmp.Or(text(kafka.HeaderParkedEvent), text(kafka.HeaderCommandID)),
			Why:  cmp.Or(text(kafka.HeaderParkedReason), text("reason_poisoned")),
		})
	}
	return all
}

// ReadParked reads what was ever put aside, also what was dealt with since.
func ReadParked(ctx context.Context, config kafka.Config) ([]Parked, error) {
	client, err := dial(config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topic := config.Topics.Parked()
	starts, ends, err := bounds(ctx, client, topic, config.Topics.N())
	if err != nil {
		return nil, err
	}
	var records []*kgo.Record
	if err := readTopic(ctx, client, topic, starts, ends, func(r *kgo.Record) { records = append(records, r) }); err != nil {
		return nil, err
	}
	return NewParked(records...), nil
}

// parked: nothing was put aside but what was meant to be.
func (c *check) parked() {
	c.Verdict.Parked = len(c.Parked)
	for _, p := range c.Parked {
		if c.Meant != nil && c.Meant(p) {
			continue
		}
		who := "a command"
		if p.Policy != "" {
			who = "an event, by policy " + p.Policy + ","
		}
		c.fault(NothingAside, "%s %q was put aside (%d-%d): %s", who, p.What, p.Partition, p.Offset, p.Why)
	}
}
