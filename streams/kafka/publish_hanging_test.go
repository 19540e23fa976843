package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Only a transaction of our own that was begun before we took the feeds, and of which the coordinator knows nothing, is ended
// by hand: another's, our newest, and one whose end is under way are left to who ends them. The first case is what a broker of
// Kafka 4.3 was seen to leave that was ended under load.
func TestOnlyATransactionThatIsForgottenHangs(t *testing.T) {
	at := kadm.DescribedProducer{Topic: "cairn.feed.threads", Partition: 1, ProducerID: 1, ProducerEpoch: 141, CurrentTxnStartOffset: 449}
	ours := kadm.DescribedTransaction{TxnID: "cairn.publishers-1", State: "Empty", ProducerID: 1, ProducerEpoch: 143}
	for name, c := range map[string]struct {
		change func(*kadm.DescribedProducer, *kadm.DescribedTransaction)
		hangs  bool
	}{
		"forgotten":              {func(*kadm.DescribedProducer, *kadm.DescribedTransaction) {}, true},
		"forgotten behind later": {func(_ *kadm.DescribedProducer, d *kadm.DescribedTransaction) { d.State = "CompleteAbort" }, true},
		"none is open":           {func(p *kadm.DescribedProducer, _ *kadm.DescribedTransaction) { p.CurrentTxnStartOffset = -1 }, false},
		"another producer's":     {func(p *kadm.DescribedProducer, _ *kadm.DescribedTransaction) { p.ProducerID = 7 }, false},
		"our newest":             {func(p *kadm.DescribedProducer, _ *kadm.DescribedTransaction) { p.ProducerEpoch = 143 }, false},
		"going on":               {func(_ *kadm.DescribedProducer, d *kadm.DescribedTransaction) { d.State = "Ongoing" }, false},
		"about to be committed":  {func(_ *kadm.DescribedProducer, d *kadm.DescribedTransaction) { d.State = "PrepareCommit" }, false},
	} {
		p, d := at, ours
		c.change(&p, &d)
		if got := kafka.Hangs(p, d); got != c.hangs {
			t.Errorf("%s: %v", name, got)
		}
	}
}
