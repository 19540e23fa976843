package codec_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// TestRaisedDataHasTodaysShape and leaves what has it already byte for byte as it is.
func TestRaisedDataHasTodaysShape(t *testing.T) {
	f := newFixture(t)
	for schema, data := range map[int]string{1: `{"to":"shelf"}`, 2: `{"target":"shelf"}`, 3: `{ "place" : "shelf" }`} {
		want := `{"place":"shelf"}`
		if schema == 3 {
			want = data
		}
		got, today, err := f.Raise(streams.Recorded{Type: "page.moved", Schema: schema, Data: json.RawMessage(data)})
		if err != nil || string(got) != want || today != 3 {
			t.Errorf("schema %d became %s of schema %d, %v", schema, got, today, err)
		}
	}
	for _, r := range []streams.Recorded{{Type: "page.moved", Schema: 4}, {Type: "page.moved"}, {Type: "page.burnt", Schema: 1}} {
		if _, _, err := f.Raise(r); !errors.Is(err, codec.ErrUnknownType) {
			t.Errorf("%s of schema %d: %v", r.Type, r.Schema, err)
		}
	}
	if _, _, err := f.Raise(streams.Recorded{Type: "page.moved", Schema: 1, Data: json.RawMessage("7")}); !errors.Is(err, codec.ErrUndecodable) {
		t.Errorf("what can't be raised: %v", err)
	}
}
