package survey_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/survey"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// A record whose body nobody can read is a defect, until it is voided: then its headers say what it counts for.
func TestAVoidedRecordCountsWhateverItsBodyIs(t *testing.T) {
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	lead := streams.Mark{Sort: streams.SortLead, Era: 1, Lead: 1, Writer: "w"}
	broken := streams.Commit{Era: 1, Lead: 1, Writer: "w", After: streams.NewAcceptance().After, Scope: "user-a", CommandID: "c-1"}
	records := []*kgo.Record{
		{Headers: kafka.LeadHeaders(lead)},
		{Offset: 1, Headers: kafka.CommitHeaders(broken, 1), Value: []byte("{")},
	}
	for _, voided := range [][]vault.Void{nil, {{Era: 1, Offset: 1}}} {
		log := survey.New(schema, voided)
		var commit *streams.Commit
		for _, r := range records {
			commit = log.Add(r)
		}
		if voided == nil {
			if commit != nil || len(log.Defects) != 1 {
				t.Errorf("a body that can't be read: %+v, defects %q", commit, log.Defects)
			}
			continue
		}
		if len(log.Defects) > 0 || log.Commits != 1 || log.Events != 0 {
			t.Errorf("voided: %d commits, %d events, defects %q", log.Commits, log.Events, log.Defects)
		}
		if commit == nil || commit.CommandID != "c-1" || commit.Scope != "user-a" || commit.Place.Offset != 1 {
			t.Errorf("voided it counts as %+v", commit)
		}
		if at := log.At(0); at.Next != 2 || at.Acceptance.After.Offset != broken.CommandOffset {
			t.Errorf("the survey stands at %+v", at)
		}
	}
}
