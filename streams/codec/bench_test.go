package codec_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// One event of about 570 bytes, as the writer and the readers see it.
func BenchmarkEvent(b *testing.B) {
	f := newFixture(b)
	key, err := f.keys.Current(b.Context(), ann)
	if err != nil {
		b.Fatal(err)
	}
	event := sample(strings.Repeat("a short message ", 8))
	r := f.record(b, 1, nil, event)
	commit := streams.Commit{Era: 1, Lead: 1, Writer: "w", Scope: ann, CommandID: command, DecidedAt: at, Actor: actor, Events: []streams.Recorded{r}}
	value, err := codec.EncodeCommit(commit)
	if err != nil {
		b.Fatal(err)
	}
	long := sample(strings.Repeat("a message of some length, ", 80))
	for _, bench := range []struct {
		name string
		run  func() error
	}{
		{"record", func() error {
			_, err := f.Record(key, ann, command, 0, page, 1, 1, at, actor, r.Hash, event)
			return err
		}},
		{"record 2 KB", func() error {
			_, err := f.Record(key, ann, command, 0, page, 1, 1, at, actor, r.Hash, long)
			return err
		}},
		{"encode commit", func() error { _, err := codec.EncodeCommit(commit); return err }},
		{"decode commit", func() error { _, err := codec.DecodeCommit(value); return err }},
		{"decode event", func() error { _, err := f.Decode(r); return err }},
		{"open event", func() error { _, err := f.Open(b.Context(), f.keys, r); return err }},
		{"chain", func() error { codec.Chain(r.Hash, r); return nil }},
		{"seal", func() error { _, err := codec.SealBytes(key, "x", []byte(event.Body.Text)); return err }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
