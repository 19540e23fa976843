package kafka_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// FuzzHeaders: whatever stands in a record's headers, reading them answers an error or something that, written again, reads the
// same; and the mark alone is what it is with all the rest.
func FuzzHeaders(f *testing.F) {
	add := func(headers []kgo.RecordHeader) {
		values := map[string][]byte{}
		for _, h := range headers {
			values[h.Key] = h.Value
		}
		f.Add(values[kafka.HeaderMark], values[kafka.HeaderScope], values[kafka.HeaderCommandID], values[kafka.HeaderFingerprint], values[kafka.HeaderOutcome], values[kafka.HeaderPlace])
	}
	c := streams.Commit{
		Era: 1, Lead: 7, Writer: "w", CommandOffset: 12, After: streams.CommandPlace{Era: 1, Offset: 11}, Scope: "user-a",
		CommandID: streams.CommandID("user-a", "1"), DecidedAt: "2026-11-30T00:00:00.000000Z", Fingerprint: []byte{0, 1},
		Events: []streams.Recorded{{Stream: "thread-a", Version: 3}},
	}
	add(kafka.CommitHeaders(c, 9))
	add(kafka.ReplyHeaders(kafka.AnswerOf(c, 9)))
	c.Events, c.Rejected = nil, &domain.Rejection{Code: "busy", Reason: "<no> & \u2028", Numbers: map[string]int64{"limit": 3}}
	add(kafka.CommitHeaders(c, 9))
	add(kafka.LeadHeaders(streams.Mark{Sort: streams.SortLead, Era: 1, Lead: 7, Writer: "w"}))
	for _, mark := range []string{"", "lead", "lead 1 1 ", "commit 1 1 w", "commit 1 1 w 1 1 99999999999999999999", "close -1 -1 w", "commit 1 1 w 1 1 1 1", "lead 01 +1 w", "commit  1 1 w"} {
		f.Add([]byte(mark), []byte("user-a"), []byte("id"), []byte(nil), []byte(`{"heads":["x","1 thread-a"],"position":-1}`), []byte("1 2 3"))
	}
	f.Add([]byte("commit 1 7 w 12 1 11"), []byte("user-a"), []byte("id"), []byte("f"), []byte(`{"heads":["1 thread-a"],"position":9,"decided_at":""}`), []byte(nil))
	f.Fuzz(func(t *testing.T, mark, scope, id, fingerprint, outcome, place []byte) {
		all := []kgo.RecordHeader{
			{Key: kafka.HeaderMark, Value: mark}, {Key: kafka.HeaderScope, Value: scope}, {Key: kafka.HeaderCommandID, Value: id},
			{Key: kafka.HeaderFingerprint, Value: fingerprint}, {Key: kafka.HeaderOutcome, Value: outcome},
		}
		if len(place) > 0 { // a reply
			all = append(all, kgo.RecordHeader{Key: kafka.HeaderPlace, Value: place})
		}
		alone, markErr := kafka.MarkOf(all)
		h, err := kafka.ReadHeaders(all)
		if err != nil {
			return
		}
		if len(place) == 0 && (markErr != nil || alone != h.Mark) {
			t.Fatalf("the mark is %+v alone, and %+v with the rest", alone, h.Mark)
		}
		if alone.Sort != streams.SortCommit && len(place) == 0 {
			return // a lead answers nobody
		}
		again, err := kafka.ReadHeaders(kafka.ReplyHeaders(h.Answer))
		if err != nil {
			t.Fatalf("%+v can't be read again: %v", h.Answer, err)
		}
		if diff := cmp.Diff(h.Answer, again.Answer, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-read +read again):\n%s", diff)
		}
		if markErr == nil {
			if back, err := kafka.MarkOf(kafka.LeadHeaders(h.Mark)); err != nil || back != h.Mark {
				t.Fatalf("mark %q read as %+v and again as %+v, %v", mark, h.Mark, back, err)
			}
		}
	})
}
