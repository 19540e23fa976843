package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// hangsAfter is how long a transaction of our own may stay open beyond its time-out, by which the coordinator would have ended
// it, before it is looked at whether the coordinator knows of it at all.
const hangsAfter = 5 * time.Second

// endHanging ends transactions that this partition's publisher left in the feeds and that the coordinator has forgotten: a
// broker that is ended at the wrong moment may keep the records and lose that they belong to one. Nobody would end such a
// transaction, and no reader would see what comes behind it. Its records were never to be seen, and are published again.
// KIP-664 is the source of what tells such a one, and of how it is ended.
func (p *publishing) endHanging(ctx context.Context, admin *kadm.Client, topics []string) error {
	var where kadm.TopicsSet
	for _, topic := range topics {
		where.Add(topic, p.partition)
	}
	producers, err := admin.DescribeProducers(ctx, where)
	if err != nil {
		return fmt.Errorf("describe the producers of the feeds: %w", err)
	}
	id := p.transactionalID()
	transactions, err := admin.DescribeTransactions(ctx, id)
	if err != nil {
		return fmt.Errorf("describe the transaction of %s: %w", id, err)
	}
	ours, known := transactions[id]
	if !known || ours.Err != nil {
		return nil
	}
	for _, at := range producers.SortedProducers() {
		if !hangs(at, ours) {
			continue
		}
		marker := kadm.TxnMarkers{ProducerID: at.ProducerID, ProducerEpoch: at.ProducerEpoch, CoordinatorEpoch: max(0, at.CoordinatorEpoch)}
		marker.Topics.Add(at.Topic, at.Partition)
		written, err := admin.WriteTxnMarkers(ctx, marker)
		written.EachPartition(func(answer kadm.TxnMarkersPartitionResponse) {
			if err == nil {
				err = answer.Err
			}
		})
		if err != nil {
			return fmt.Errorf("end the transaction that hangs in partition %d of %s: %w", at.Partition, at.Topic, err)
		}
		p.config.Log.Warn("a transaction that the broker had forgotten is ended; its events are published again",
			"topic", at.Topic, "partition", at.Partition, "offset", at.CurrentTxnStartOffset)
	}
	return nil
}

// hangs reports whether a producer's transaction is one of ours that its coordinator does not know: it was begun before we
// took the feeds, which ended whatever was known.
func hangs(at kadm.DescribedProducer, ours kadm.DescribedTransaction) bool {
	return at.CurrentTxnStartOffset >= 0 && at.ProducerID == ours.ProducerID && at.ProducerEpoch < ours.ProducerEpoch &&
		slices.Contains([]string{"Empty", "CompleteCommit", "CompleteAbort"}, ours.State)
}
