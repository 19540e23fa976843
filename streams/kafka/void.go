package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
)

// CountedAt is the commit at an offset of the log, as its headers say, if it counts: what can be voided. Its body may be
// anything, and is not looked at. What the writer has stored, or a later commit stands on, is refused.
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
	voided := map[int64]bool{}
	if c.Voided != nil {
		if voided, err = c.Voided(ctx, partition); err != nil {
			return nil, fmt.Errorf("voided records: %w", err)
		}
	}
	in, err := c.follow(map[int32]int64{partition: at.Next})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var commit *streams.Commit
	for at.Next < end {
		records, err := poll(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			next, mark, counts := accept(at, r)
			at = next
			isCommit := counts && mark.Sort == streams.SortCommit
			switch {
			case r.Offset < offset:
			case r.Offset == offset && isCommit:
				commit = VoidedCommit(r, mark)
			case commit == nil:
				return nil, fmt.Errorf("the record at offset %d is no commit that counts: every reader steps over it already", offset)
			case isCommit && !voided[r.Offset] && standsOn(r, commit):
				return nil, fmt.Errorf("the commit at offset %d stands on the one at offset %d: voided now it would leave a hole; where both must go, void the last one first", r.Offset, offset)
			}
		}
	}
	return commit, nil
}

// standsOn reports whether a later commit has events behind those of another.
func standsOn(r *kgo.Record, commit *streams.Commit) bool {
	h, err := ReadHeaders(r.Headers)
	return err == nil && h.Answer.Scope == commit.Scope && len(h.Answer.Heads) > 0
}
