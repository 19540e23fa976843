package backup

import (
	"bytes"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/survey"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
)

// Found is what is in a back-up.
type Found struct {
	Manifest Manifest
	Log      *survey.Log
}

// Check reads the whole of a back-up: every file against its checksum, every record of the log by the acceptance rule,
// every position, version and hash. Its error says that the files are not what was written; what is wrong inside the log,
// as it was when it was copied, is in Log.Defects. It writes nothing.
func Check(ctx context.Context, dir string, progress *Progress) (Found, error) {
	m, err := Read(dir)
	if err != nil {
		return Found{}, err
	}
	progress.Say("checking the files of the back-up")
	for _, p := range m.pieces() {
		if err := p.check(dir); err != nil {
			return Found{}, fmt.Errorf("back-up: %w", err)
		}
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return Found{}, err
	}
	found := Found{Manifest: m, Log: survey.New(schema, m.Voids)}
	for _, r := range m.Log {
		if err := r.walk(ctx, dir, func(record *kgo.Record) {
			found.Log.Add(record)
			progress.Step(fmt.Sprintf("checking the log, partition %d of %d, records", r.Partition+1, m.Partitions), record.Offset, r.Next)
		}); err != nil {
			return Found{}, fmt.Errorf("back-up: %w", err)
		}
		if found.Log.At(r.Partition).Acceptance.Closed {
			return Found{}, fmt.Errorf("back-up: %w", ErrClosed)
		}
	}
	for _, some := range [][]Records{m.Commands, m.Parked} {
		for _, r := range some {
			if err := r.walk(ctx, dir, nil); err != nil {
				return Found{}, fmt.Errorf("back-up: %w", err)
			}
		}
	}
	return found, nil
}

// walk reads all records of a file and compares them with what the manifest says of them.
func (r Records) walk(ctx context.Context, dir string, each func(*kgo.Record)) error {
	d := newDigest()
	var n int64
	if err := r.each(dir, func(record *kgo.Record) error {
		n++
		d.add(record)
		if each != nil {
			each(record)
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	if n != r.Count || !bytes.Equal(d.sum.Sum(nil), r.Digest) {
		return fmt.Errorf("%s does not hold the %d records that were copied", r.File, r.Count)
	}
	return nil
}
