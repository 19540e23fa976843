package codec_test

import (
	"encoding/json"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/memory"
)

// A small aggregate: pages on which people write.

type written struct {
	Page  string          `json:"page"`
	Words int             `json:"words,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Marks map[string]int  `json:"marks,omitempty"`
	Body  body            `json:"-" sealed:"true"`
}

type body struct {
	Text string          `json:"text"`
	More json.RawMessage `json:"more,omitempty"`
}

type torn struct {
	Why string `json:"why"`
}

// moved has had two schemas before: {"to":"x"}, then {"target":"x"}, now {"place":"x"}.
type moved struct {
	Place string `json:"place"`
}

type write struct {
	Page string `json:"page"`
	Body body   `json:"-" sealed:"true"`
}

func (w write) Target() domain.Stream { return domain.NewStream("page", w.Page) }

type tear struct {
	Page string `json:"page"`
}

func (c tear) Target() domain.Stream { return domain.NewStream("page", c.Page) }

// stray is a command of pages that aims at something else.
type stray struct {
	Stream string `json:"stream"`
}

func (c stray) Target() domain.Stream { return domain.Stream(c.Stream) }

func rename(from, to string) domain.Upcast {
	return func(data []byte) ([]byte, error) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, err
		}
		fields[to] = fields[from]
		delete(fields, from)
		return json.Marshal(fields)
	}
}

func pages() domain.Aggregate {
	return domain.Aggregate{
		Kind: "page",
		Events: []domain.Kind{
			domain.Named[written]("page.written"), domain.Named[torn]("page.torn"),
			domain.Named[moved]("page.moved", domain.Was(rename("to", "target")), domain.Was(rename("target", "place"))),
		},
		Commands: []domain.Kind{domain.Named[write]("page.write"), domain.Named[tear]("page.tear"), domain.Named[stray]("page.stray")},
	}
}

const (
	ann     domain.Scope  = "user-ann"
	page    domain.Stream = "page-1"
	command               = "5f0c4b1e-1111-5222-8333-944455566677"
	at                    = "2026-11-30T12:00:00.123456Z"
)

var actor = json.RawMessage(`{"kind":"user","id":"ann"}`)

type fixture struct {
	*codec.Schema
	keys *memory.Keys
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	s, err := codec.New(pages())
	if err != nil {
		t.Fatal(err)
	}
	return fixture{s, memory.NewKeys()}
}

func (f fixture) record(t testing.TB, version uint64, prev []byte, event any) streams.Recorded {
	t.Helper()
	key, err := f.keys.Current(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Record(key, ann, command, int(version-1), page, version, version+10, at, actor, prev, event)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sample(text string) written {
	return written{Page: "1", Words: 2, Raw: json.RawMessage(`{"a": "<b>&",  "c":[1.0, 1e3]}`), Marks: map[string]int{"z": 1, "a": 2}, Body: body{Text: text}}
}
