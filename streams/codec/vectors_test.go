package codec_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// The vectors by which clients in other languages check that they chain and digest as the log does.
const vectorFile = "../../clients/typescript/client/test/vectors/chain.json"

type (
	vectors struct {
		Note    string   `json:"note"`
		Genesis []begun  `json:"genesis"`
		Streams []vector `json:"streams"`
	}
	begun struct {
		Stream string `json:"stream"`
		Hash   string `json:"hash"`
	}
	vector struct {
		Name   string        `json:"name"`
		Events []vectorEvent `json:"events"`
	}
	vectorEvent struct {
		ID         string          `json:"id"`
		Stream     string          `json:"stream"`
		Seq        uint64          `json:"seq"`
		Position   uint64          `json:"position"`
		Type       string          `json:"event_type"`
		Schema     int             `json:"schema"`
		At         string          `json:"at"`
		Actor      json.RawMessage `json:"actor"`
		Data       json.RawMessage `json:"data"`
		Hash       string          `json:"hash"`
		SealDigest string          `json:"seal_digest,omitempty"`
		Salt       string          `json:"salt,omitempty"`
		Stored     vectorStored    `json:"stored"`
	}
	vectorStored struct {
		Data  string  `json:"data"`
		Text  *string `json:"text,omitempty"`
		Actor string  `json:"actor"`
		At    string  `json:"at"`
	}
)

// part is an event of a vector: its clear data, and what is sealed of it. Erased content has a digest and nothing else.
type part struct {
	kind   string
	schema int
	data   string
	text   string
	erased bool
}

func TestTheVectorsOfTheChainAreWhatTheLogSays(t *testing.T) {
	want := encodeVectors(t, vectors{
		Note: "Written by `CAIRN_WRITE_VECTORS=yes go test ./streams/codec -run Vectors`. Do not edit.",
		Genesis: []begun{
			{"thread-1", hex.EncodeToString(codec.Genesis("thread-1"))},
			{"thread-ñ😀", hex.EncodeToString(codec.Genesis("thread-ñ😀"))},
		},
		Streams: []vector{
			chained(t, "a conversation", "thread-5f0c", `{"kind":"user","id":"u-1"}`, []part{
				{kind: "thread.opened", schema: 1, data: `{}`},
				{kind: "thread.message_posted", schema: 1, data: `{"run_id":"r1","channel":"home"}`, text: `{"text":"Buy milk"}`},
				{kind: "thread.titled", schema: 1, data: `{}`, text: `{"text":"Milk"}`},
				{kind: "thread.turn_completed", schema: 1, data: `{"run_id":"r1","turn":1,"attempt":1,"agent":"task_agent","model":"m","finish_reason":"stop"}`, text: `{"text":"Done."}`},
				{kind: "thread.run_completed", schema: 1, data: `{"run_id":"r1","turns":1}`},
			}),
			chained(t, "any bytes of JSON", "page-ü", `{"kind":"device","id":"Ada's \"laptop\"","device":"d\u0000"}`, []part{
				{kind: "page.a", schema: 12, data: `{"b":1,"a":2,"b2":1.50,"big":18446744073709551615}`},
				{kind: "page.b", schema: 1, data: `{ "spaces" : [ ] }`, text: `{"text":"<b>&amp; \u2028 \ud83d\ude00 😀 é` + "\u2029" + `"}`},
				{kind: "page.c", schema: 1, data: ``, text: `""`},
				{kind: "page.d", schema: 1, data: `{}`, text: `{"text":"` + strings.Repeat("long ", 4000) + `"}`},
			}),
			chained(t, "erased content", "thread-gone", `{"kind":"system"}`, []part{
				{kind: "thread.opened", schema: 1, data: `{}`},
				{kind: "thread.message_posted", schema: 1, data: `{"run_id":"r1","channel":"chat"}`, text: `{"text":"nobody reads this"}`, erased: true},
				{kind: "thread.run_cancelled", schema: 1, data: `{"run_id":"r1","by":"user"}`},
			}),
		},
	})
	if os.Getenv("CAIRN_WRITE_VECTORS") != "" {
		if err := os.MkdirAll(filepath.Dir(vectorFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Fatalf("%s is not what the log says: write it anew (CAIRN_WRITE_VECTORS=yes go test ./streams/codec -run Vectors), and look at the clients", vectorFile)
	}
}

func chained(t *testing.T, name string, stream domain.Stream, actor string, parts []part) vector {
	t.Helper()
	v := vector{Name: name}
	prev := codec.Genesis(stream)
	for i, p := range parts {
		r := streams.Recorded{
			ID: streams.EventID(name, i), Stream: stream, Version: uint64(i + 1), Type: p.kind, Schema: p.schema,
			At: "2026-11-30T19:29:25." + strconv.Itoa(100000+i) + "Z", Actor: json.RawMessage(actor), Data: json.RawMessage(p.data),
		}
		shown := p.data
		e := vectorEvent{
			ID: r.ID, Stream: string(stream), Seq: r.Version, Position: r.Version + 7, Type: r.Type, Schema: r.Schema, At: r.At,
			Actor: r.Actor, Stored: vectorStored{Data: p.data, Actor: actor, At: r.At},
		}
		if p.text != "" {
			salt := sha256.Sum256([]byte(r.ID))
			mac := hmac.New(sha256.New, salt[:])
			mac.Write([]byte(p.text))
			r.SealDigest = mac.Sum(nil)
			if !codec.Verify([]byte(p.text), salt[:], r.SealDigest) {
				t.Fatalf("the digest of %s %d is not the log's", name, i)
			}
			e.SealDigest = hex.EncodeToString(r.SealDigest)
			if !p.erased {
				e.Salt, e.Stored.Text = hex.EncodeToString(salt[:]), &p.text
				shown = with(p.data, p.text)
			}
		}
		if shown == "" {
			shown = "{}"
		}
		prev = codec.Chain(prev, r)
		e.Hash, e.Data = hex.EncodeToString(prev), json.RawMessage(shown)
		v.Events = append(v.Events, e)
	}
	return v
}

// with is clear data and opened content as one object.
func with(data, text string) string {
	inner := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(data), "{"), "}"))
	if inner != "" {
		inner += ","
	}
	return "{" + inner + `"content":` + text + "}"
}

func encodeVectors(t *testing.T, v vectors) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
