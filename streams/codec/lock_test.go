package codec_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
)

//go:embed wire.lock
var locked []byte

// An edited shape fails here: what is stored was written in the old one. A new event, command or schema
// only needs "go run ./streams/codec/wirelock".
func TestStoredShapesAreLocked(t *testing.T) {
	text, err := codec.Lock(locked, aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, locked) {
		t.Fatal("wire.lock lacks a shape: run go run ./streams/codec/wirelock")
	}
}

type inner struct {
	Depth int    `json:"depth"`
	Below *inner `json:"below,omitempty"`
}

type base struct {
	ID string `json:"id"`
}

type original struct {
	base
	Text  string            `json:"text"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Times map[string]int    `json:"times"`
	Since time.Time         `json:"since"`
	Blob  []byte            `json:"blob"`
	Inner []inner           `json:"inner"`
	Body  body              `json:"-" sealed:"true"`
	Odd   map[string]string `json:"-"`
	quiet int               //nolint:unused // an unexported field has no shape
}

type reordered struct {
	Inner []inner         `json:"inner"`
	Blob  []byte          `json:"blob"`
	Since time.Time       `json:"since"`
	Times map[string]int  `json:"times"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Text  string          `json:"text"`
	base
	Body body `json:"-" sealed:"true"`
}

type renamed struct {
	Page  string          `json:"site"`
	Words int             `json:"words,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Marks map[string]int  `json:"marks,omitempty"`
	Body  body            `json:"-" sealed:"true"`
}

func one(k domain.Kind) domain.Aggregate {
	return domain.Aggregate{Kind: "page", Events: []domain.Kind{k}}
}

func lock(t *testing.T, before []byte, k domain.Kind) string {
	t.Helper()
	text, err := codec.Lock(before, one(k))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAShapeIsWhatItsJSONLooksLike(t *testing.T) {
	const want = "event page.x/1 {blob: base64, id: string, inner: [{below?: same or null, depth: int}], raw?: json, " +
		"since: time, text: string, times: {*: int}} sealed {more?: json, text: string}"
	text := lock(t, nil, domain.Named[original]("page.x"))
	if !strings.Contains(text, want+"\n") {
		t.Fatalf("the shape is\n%swant\n%s", text, want)
	}
	if again := lock(t, []byte(text), domain.Named[reordered]("page.x")); again != text {
		t.Fatal("another order of fields is another shape")
	}
}

func TestEditsFailAndNewSchemasAdd(t *testing.T) {
	first := lock(t, nil, domain.Named[written]("page.written"))
	for name, edit := range map[string]domain.Kind{
		"a renamed field": domain.Named[renamed]("page.written"),
		"another content": domain.Named[struct {
			Page  string          `json:"page"`
			Words int             `json:"words,omitempty"`
			Raw   json.RawMessage `json:"raw,omitempty"`
			Marks map[string]int  `json:"marks,omitempty"`
			Body  torn            `json:"-" sealed:"true"`
		}]("page.written"),
		"a name given up": domain.Named[written]("page.noted"),
	} {
		if _, err := codec.Lock([]byte(first), one(edit)); err == nil || !strings.Contains(err.Error(), "page.written/1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	raised := domain.Named[renamed]("page.written", domain.Was(rename("page", "site")))
	second := lock(t, []byte(first), raised)
	if strings.Count(second, "page.written/") != 2 {
		t.Fatalf("a new schema stands beside the old one:\n%s", second)
	}
	if _, err := codec.Lock([]byte(second), one(domain.Named[written]("page.written"))); err == nil {
		t.Error("a schema that is stored was taken back")
	}
}
