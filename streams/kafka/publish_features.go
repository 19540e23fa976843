package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The publisher's transactions need the second protocol (KIP-890), in which each transaction has an epoch of its own: in the
// first an append that comes late may open the next transaction, or join it.
const (
	transactionFeature = "transaction.version"
	transactionVersion = 2
)

// checkTransactions refuses brokers whose transactions do not keep a late append out.
func checkTransactions(ctx context.Context, client *kgo.Client) error {
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "cairn", "1"
	told, err := ask.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(told.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("asking the brokers for their features: %w", err)
	}
	level := int16(0)
	for _, f := range told.FinalizedFeatures {
		if f.Name == transactionFeature {
			level = f.MaxVersionLevel
		}
	}
	if level < transactionVersion {
		return fmt.Errorf("the brokers' %s is %d, and the feeds need %d, without which a late append could be published twice: "+
			"raise it with `kafka-features.sh --bootstrap-server … upgrade --feature %s=%d` (Apache Kafka 4.0 or newer)",
			transactionFeature, level, transactionVersion, transactionFeature, transactionVersion)
	}
	return nil
}
