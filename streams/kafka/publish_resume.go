package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
)

// HeaderResume is a header of feed records beside the event's attributes: the checkpoint of the log before the batch
// that the record came with. A batch is published whole before the next begins, so everything before that checkpoint
// is on all feeds of the partition, and from there whoever publishes next reads the log again, skipping what each feed
// has. That holds without transactions, too, where a kill leaves one feed further than another.
const HeaderResume = "cairn_resume"

// published is what a feed's last record says.
type published struct {
	id    string
	place place
	from  streams.Checkpoint
	met   bool // nothing is to be compared any more
}

// place orders events of a partition of the log.
type place struct {
	offset int64
	index  int
}

func (p place) before(q streams.Place) bool {
	return p.offset < q.Offset || p.offset == q.Offset && p.index < q.Index
}

// resume finds out how far each feed is, and answers where in the log to go on.
func (p *publishing) resume(ctx context.Context) (streams.Checkpoint, error) {
	from := streams.Start()
	var err error
	if p.last, err = p.lastPublished(ctx); err != nil {
		return from, err
	}
	end, err := p.publisher.tailer.End(ctx, p.partition)
	if err != nil {
		return from, err
	}
	for name, last := range p.last {
		if last.place.offset >= end {
			return from, fmt.Errorf("partition %d of %s ends at %d, but %s carries event %s of offset %d: the log lost its end, or the feed is another log's",
				p.partition, p.config.Topics.Log(), end, p.config.Topics.Feed(name), last.id, last.place.offset)
		}
		if last.from.Next > from.Next {
			from = last.from
		}
	}
	for name, last := range p.last {
		last.met = last.place.offset < from.Next // it came with an older batch
		p.last[name] = last
	}
	return from, nil
}

// compare makes sure that what the feeds carry last is what the log has there: a feed of another log, or of one that was
// put back from an old copy and went on differently, is not continued.
func (p *publishing) compare(c *streams.Commit) error {
	for name, last := range p.last {
		if last.met || c.Place.Offset != last.place.offset {
			continue
		}
		// What was published of a commit that was voided since stays.
		if n := last.place.index; !voided(c) && (n >= len(c.Events) || c.Events[n].ID != last.id) {
			return p.differs(name, last)
		}
		last.met = true
		p.last[name] = last
	}
	return nil
}

// passed makes sure that nothing that the feeds carry was missed by the time the log is read up to next.
func (p *publishing) passed(next int64) error {
	for name, last := range p.last {
		if !last.met && last.place.offset < next {
			return p.differs(name, last)
		}
	}
	return nil
}

// voided reports whether a commit counts without events because an operator said so.
func voided(c *streams.Commit) bool { return len(c.Events) == 0 && c.Rejected == nil }

func (p *publishing) differs(name string, last published) error {
	return fmt.Errorf("%s carries event %s of offset %d and index %d, and the log has another there: the feed is another log's",
		p.config.Topics.Feed(name), last.id, last.place.offset, last.place.index)
}

// lastPublished reads the last committed record of each feed that has one.
func (p *publishing) lastPublished(ctx context.Context) (map[string]published, error) {
	names := map[string]string{} // by topic
	var topics []string
	for _, name := range feed.Names() {
		topic := p.config.Topics.Feed(name)
		names[topic] = name
		topics = append(topics, topic)
	}
	bounds, err := p.bounds(ctx, topics)
	if err != nil {
		return nil, err
	}
	found := map[string]published{}
	for back := int64(16); len(bounds) > 0; back *= 16 {
		from := map[string]int64{}
		for topic, b := range bounds {
			from[topic] = max(b.start, b.end-back)
		}
		if err := p.lastOf(ctx, from, bounds, func(topic string, last published) { found[names[topic]] = last }); err != nil {
			return nil, err
		}
		for topic, b := range bounds {
			_, ok := found[names[topic]]
			switch {
			case ok:
				delete(bounds, topic)
			case from[topic] > b.start:
			case b.start > 0:
				return nil, fmt.Errorf("%s was cut at its beginning and holds no event any more in partition %d: where to go on is not known", topic, p.partition)
			default:
				delete(bounds, topic) // aborted transactions only
			}
		}
	}
	return found, nil
}

// bound is where a partition begins and ends.
type bound struct{ start, end int64 }

// bounds are those of the topics that are not empty. No transaction is open in them: a record behind one is not
// to be seen, and would be published again.
func (p *publishing) bounds(ctx context.Context, topics []string) (map[string]bound, error) {
	admin := kadm.NewClient(p.out)
	hanging := time.NewTicker(p.transactionTimeout() + hangsAfter)
	defer hanging.Stop()
	for {
		starts, err1 := admin.ListStartOffsets(ctx, topics...)
		committed, err2 := admin.ListCommittedOffsets(ctx, topics...)
		ends, err3 := admin.ListEndOffsets(ctx, topics...)
		for _, e := range []error{err1, err2, err3, starts.Error(), committed.Error(), ends.Error()} {
			if e != nil {
				return nil, fmt.Errorf("ends of the feeds: %w", e)
			}
		}
		bounds, open := map[string]bound{}, ""
		for _, topic := range topics {
			start, _ := starts.Lookup(topic, p.partition)
			stable, _ := committed.Lookup(topic, p.partition)
			end, _ := ends.Lookup(topic, p.partition)
			if stable.Offset < end.Offset {
				open = topic
			}
			if end.Offset > start.Offset {
				bounds[topic] = bound{start.Offset, end.Offset}
			}
		}
		if open == "" {
			return bounds, nil
		}
		p.change(func(s *FeedStats) { s.Waiting = "a transaction is open in " + open })
		if !wait(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
		select {
		case <-hanging.C:
			if p.config.Fencing != Transactions {
				continue
			}
			if err := p.endHanging(ctx, admin, topics); err != nil {
				return nil, err
			}
		default:
		}
	}
}

// lastOf reads topics to their ends and tells the last event that each has.
func (p *publishing) lastOf(ctx context.Context, from map[string]int64, bounds map[string]bound, tell func(string, published)) error {
	offsets := map[string]map[int32]kgo.Offset{}
	for topic, at := range from {
		offsets[topic] = map[int32]kgo.Offset{p.partition: kgo.NewOffset().At(at)}
	}
	client, err := p.config.client(
		kgo.ConsumePartitions(offsets), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // which are the last of a partition whose last batch was aborted
	)
	if err != nil {
		return err
	}
	defer client.Close()
	reading := len(from)
	for reading > 0 {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range records {
			if !r.Attrs.IsControl() {
				if last, ok := publishedOf(r); ok {
					tell(r.Topic, last)
				}
			}
			if r.Offset == bounds[r.Topic].end-1 {
				reading--
			}
		}
	}
	return nil
}

func resumeText(c streams.Checkpoint) []byte {
	a := c.Acceptance
	return fmt.Appendf(nil, "%d %d %d %d %d %s", c.Next, a.Era, a.Lead, a.After.Era, a.After.Offset, a.Writer)
}

// publishedOf reads what a record says of its place in the log. One that no publisher wrote says nothing.
func publishedOf(r *kgo.Record) (published, bool) {
	id, _ := find(r.Headers, "ce_id")
	offset, _ := find(r.Headers, "ce_logoffset")
	index, _ := find(r.Headers, "ce_logindex")
	text, _ := find(r.Headers, HeaderResume)
	f := strings.SplitN(string(text), " ", 6)
	if len(id) == 0 || len(f) != 6 {
		return published{}, false
	}
	var n numbers
	last := published{id: string(id), place: place{n.read(string(offset), 64), int(n.read(string(index), 32))}}
	last.from.Next = n.read(f[0], 64)
	a := &last.from.Acceptance
	a.Era, a.Lead, a.Writer = int(n.read(f[1], 32)), n.read(f[2], 64), f[5]
	a.After = streams.CommandPlace{Era: int(n.read(f[3], 32)), Offset: n.read(f[4], 64)}
	return last, n.err == nil
}
