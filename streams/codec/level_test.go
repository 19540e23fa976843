package codec_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/codec"
)

// pinned had its page called leaf; a release that came later also has a colour.
type pinned struct {
	Page string `json:"page"`
}

type stamped struct {
	By string `json:"by"`
}

func pinnedFrom1(data []byte) ([]byte, error) {
	return []byte(strings.Replace(string(data), `"leaf"`, `"page"`, 1)), nil
}

func pinnedTo1(data []byte) ([]byte, error) {
	return []byte(strings.Replace(string(data), `"page"`, `"leaf"`, 1)), nil
}

// Until the level allows it a new type is not written, and a new schema is written as the old one, which reads the same.
func TestNothingNewIsWrittenBeforeItsLevel(t *testing.T) {
	f := newFixture(t)
	aggregate := pages()
	aggregate.Events = append(aggregate.Events,
		domain.Named[pinned]("page.pinned", domain.Raised(3, pinnedFrom1, pinnedTo1)), domain.Named[stamped]("page.stamped", domain.Since(2)))
	schema, err := codec.New(aggregate)
	if err != nil {
		t.Fatal(err)
	}
	if schema.Level() != 3 {
		t.Fatalf("the release has level %d", schema.Level())
	}
	fresh := schema.New(1)
	slices.Sort(fresh)
	if !slices.Equal(fresh, []string{"event page.pinned/2", "event page.stamped/1"}) || len(schema.New(3)) != 0 {
		t.Errorf("new since level 1: %v", fresh)
	}
	key, err := f.keys.Current(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	for level, want := range map[int]struct {
		schema int
		data   string
		fails  bool
	}{1: {1, `{"leaf":"7"}`, true}, 2: {1, `{"leaf":"7"}`, false}, 3: {2, `{"page":"7"}`, false}, 9: {2, `{"page":"7"}`, false}} {
		at := schema.At(level)
		r, err := at.Record(key, ann, command, 0, page, 1, 1, "2026-11-30T00:00:00.000000Z", actor, nil, pinned{"7"})
		if err != nil || r.Schema != want.schema || string(r.Data) != want.data {
			t.Errorf("level %d: schema %d, %s, %v", level, r.Schema, r.Data, err)
		}
		if got, err := schema.Decode(r); err != nil || got != (pinned{"7"}) {
			t.Errorf("level %d reads back as %v, %v", level, got, err)
		}
		_, err = at.Record(key, ann, command, 0, page, 1, 1, "2026-11-30T00:00:00.000000Z", actor, nil, stamped{"x"})
		if errors.Is(err, codec.ErrLevel) != want.fails {
			t.Errorf("level %d: a new type: %v", level, err)
		}
	}
}
