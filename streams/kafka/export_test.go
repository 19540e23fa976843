package kafka

import "github.com/twmb/franz-go/pkg/kadm"

// Hangs is hangs.
func Hangs(at kadm.DescribedProducer, ours kadm.DescribedTransaction) bool { return hangs(at, ours) }
