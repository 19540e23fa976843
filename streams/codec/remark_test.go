package codec_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// A remarked commit differs in its mark and in nothing else, what a newer release added included.
func TestRemarkChangesTheMarkOnly(t *testing.T) {
	f := newFixture(t)
	c := streams.Commit{
		Era: 3, Lead: 17, Writer: `a "writer"`, CommandOffset: 812, After: streams.CommandPlace{Era: 2, Offset: -1}, Scope: ann,
		CommandID: command, Fingerprint: []byte("f"), DecidedAt: at, Actor: actor,
		Events: []streams.Recorded{f.record(t, 1, nil, sample(strings.Repeat("content ", 100)))},
	}
	value, err := codec.EncodeCommit(c)
	if err != nil {
		t.Fatal(err)
	}
	value = append(bytes.TrimSuffix(value, []byte("}")), []byte(`,"from_the_future": { "x" : 1.0 }}`)...)
	to := streams.Mark{Sort: streams.SortCommit, Era: 4, Lead: 1, Writer: "m", CommandOffset: 7, After: streams.CommandPlace{Era: 4, Offset: 6}}
	got, err := codec.Remark(value, c.Mark(), to)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := codec.Remark(got, to, c.Mark()); err != nil || !bytes.Equal(back, value) {
		t.Fatalf("back again: %v\n%s\n%s", err, back, value)
	}
	was, err := codec.DecodeCommit(value)
	if err != nil {
		t.Fatal(err)
	}
	is, err := codec.DecodeCommit(got)
	if err != nil {
		t.Fatal(err)
	}
	if is.Mark() != to {
		t.Fatalf("mark %+v, want %+v", is.Mark(), to)
	}
	if diff := cmp.Diff(was.Events, is.Events, cmpopts.IgnoreFields(streams.Recorded{}, "Era")); diff != "" {
		t.Fatal(diff)
	}
	if _, err := codec.Remark(value, to, to); err == nil {
		t.Fatal("a commit of another mark was taken")
	}
	lead := streams.Mark{Sort: streams.SortLead, Era: 4, Lead: 1, Writer: "m"}
	if _, err := codec.Remark(value, c.Mark(), lead); err == nil {
		t.Fatal("a commit became a lead")
	}
}
