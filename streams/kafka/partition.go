package kafka

import "github.com/cairnhq/cairn/domain"

// PartitionOf is the partition of a scope among n: Kafka's murmur2 of its id, as Kafka's default
// partitioner computes it, so that any producer that sets the scope as key agrees.
func PartitionOf(scope domain.Scope, n int32) int32 {
	return int32(murmur2(scope)&0x7fffffff) % n
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(s domain.Scope) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
	)
	h := seed ^ uint32(len(s))
	for ; len(s) >= 4; s = s[4:] {
		k := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(s) {
	case 3:
		h ^= uint32(s[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(s[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(s[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
