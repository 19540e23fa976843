package kafka

import (
	"context"
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

// CountedAt is the commit at an offset of the log, as its headers say, if it counts: what can be voided. Its body may be
// anything, and is not looked at.
func (c Config) CountedAt(ctx context.Context, partition int32, offset int64) (*streams.Commit, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	end, err := endOf(ctx, client, c.Topics.Log(), partition)
	if err != nil {
		return nil, err
	}
	if offset < 0 || offset >= end {
		return nil, fmt.Errorf("partition %d of %s has no offset %d: it ends at %d", partition, c.Topics.Log(), offset, end)
	}
	at, err := c.stored(ctx, partition)
	if err != nil {
		return nil, err
	}
	if at.Next > offset {
		return nil, fmt.Errorf("the writer has taken the record at offset %d and built on it: voided now it would leave a hole", offset)
	}
	in, err := c.follow(map[int32]int64{partition: at.Next})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for {
		records, err := poll(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			next, mark, counts := accept(at, r)
			at = next
			switch {
			case r.Offset < offset:
			case r.Offset > offset, !counts, mark.Sort != streams.SortCommit:
				return nil, fmt.Errorf("the record at offset %d is no commit that counts: every reader steps over it already", offset)
			default:
				return VoidedCommit(r, mark), nil
			}
		}
	}
}
