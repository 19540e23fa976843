package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

func envelope(body domain.Command) codec.Envelope {
	return codec.Envelope{
		Scope: ann, ID: command, CorrelationID: "corr", CausationID: "cause", Fingerprint: []byte{9, 0, 255},
		Actor: domain.Actor{Kind: domain.ActorUser, ID: "ann", Device: "d", Agent: "a", Run: "r"},
		Known: streams.CommandPlace{Era: 2, Offset: -1}, Body: body,
	}
}

func TestCommandsComeBackAsTheyWere(t *testing.T) {
	f := newFixture(t)
	for _, body := range []domain.Command{
		write{Page: "1", Body: body{Text: "hello <b>"}}, write{Page: "1", Body: body{Text: strings.Repeat("x", 1<<20)}}, tear{Page: "2"},
	} {
		want := envelope(body)
		value, err := f.EncodeCommand(t.Context(), f.keys, want)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(value, []byte("hello")) || !json.Valid(value) {
			t.Fatalf("encoded to %s", value)
		}
		got, err := f.DecodeCommand(t.Context(), f.keys, value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestActorIsStoredAsJSON(t *testing.T) {
	for _, a := range []domain.Actor{{Kind: domain.ActorSystem}, envelope(nil).Actor, {Kind: "x", ID: "\"<\n\x7f\xff"}} {
		var back domain.Actor
		if err := json.Unmarshal(codec.EncodeActor(a), &back); err != nil {
			t.Fatal(err)
		}
		a.ID = strings.ToValidUTF8(a.ID, "\ufffd")
		if back != a {
			t.Errorf("%+v came back as %+v", a, back)
		}
	}
}

// What can never work says so; a missing key does not, since it may come back.
func TestUndecodableCommandsAreToldFromMissingKeys(t *testing.T) {
	f := newFixture(t)
	value, err := f.EncodeCommand(t.Context(), f.keys, envelope(write{Page: "1", Body: body{Text: "hello"}}))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, fresh string) []byte {
		if !bytes.Contains(value, []byte(old)) {
			t.Fatalf("%s does not hold %s", value, old)
		}
		return bytes.Replace(value, []byte(old), []byte(fresh), 1)
	}
	strayed, err := f.EncodeCommand(t.Context(), f.keys, envelope(stray{Stream: "thread-1"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("hello"), "cut off": value[:len(value)/2], "another value": []byte("[1]"),
		"later format": replace(`"v":1`, `"v":2`), "no scope": replace("user-ann", "ann"), "no id": replace(command, "x"),
		"unknown type": replace("page.write", "page.burn"), "an event": replace("page.write", "page.written"),
		"later schema": replace(`"schema":1`, `"schema":2`), "another scope's content": replace("user-ann", "user-bob"),
		"another command's content": replace(command, "5f0c4b1e-1111-5222-8333-944455566678"),
		"bad target":                replace(`{"page":"1"}`, `{"page":"A B"}`), "data of another shape": replace(`{"page":"1"}`, `{"page":7}`),
		"another aggregate's stream": strayed, "no actor": replace(`"actor":{`, `"actor":7,"x":{`),
	} {
		if name == "another scope's content" {
			if _, err := f.keys.Current(t.Context(), "user-bob"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.DecodeCommand(t.Context(), f.keys, bad); !errors.Is(err, codec.ErrUndecodable) {
			t.Errorf("%s: %v, want ErrUndecodable", name, err)
		}
	}
	mustBe := func(want error) {
		t.Helper()
		c, err := f.DecodeCommand(t.Context(), f.keys, value)
		if !errors.Is(err, want) || errors.Is(err, codec.ErrUndecodable) {
			t.Errorf("%v, want %v alone", err, want)
		}
		if c.Scope != ann || c.ID != command || c.Body != nil {
			t.Errorf("without a key the envelope is %+v", c)
		}
	}
	f.keys.Cut()
	mustBe(streams.ErrKeysUnreachable)
	f.keys.Mend()
	value = replace(`"key":1`, `"key":4`)
	mustBe(streams.ErrKeyAbsent)
	if err := f.keys.Destroy(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	mustBe(streams.ErrScopeErased)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.DecodeCommand(ended, f.keys, value); !errors.Is(err, context.Canceled) || errors.Is(err, codec.ErrUndecodable) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestFingerprintsTellRequestsApart(t *testing.T) {
	f := newFixture(t)
	index, err := f.keys.Index(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, b := range []domain.Command{write{Page: "1"}, write{Page: "2"}, write{Page: "1", Body: body{Text: "x"}}, tear{Page: "1"}} {
		plain, err := f.Plain(b)
		if err != nil || !json.Valid(plain) {
			t.Fatalf("%s, %v", plain, err)
		}
		again, err := f.Plain(b)
		if err != nil || !bytes.Equal(codec.Fingerprint(index, plain), codec.Fingerprint(index, again)) {
			t.Fatalf("one request has two fingerprints")
		}
		mark := string(codec.Fingerprint(index, plain))
		if other, ok := seen[mark]; ok {
			t.Fatalf("%s and %s have one fingerprint", other, plain)
		}
		seen[mark] = string(plain)
	}
}
