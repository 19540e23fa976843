package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

func TestNewRefusesDoubleNames(t *testing.T) {
	twice := pages()
	twice.Kind = "leaf"
	for name, aggregates := range map[string][]domain.Aggregate{
		"kind":  {pages(), {Kind: "page"}},
		"names": {pages(), twice},
		"types": {{Kind: "a", Events: []domain.Kind{domain.Named[torn]("a.torn"), domain.Named[torn]("a.ripped")}}},
	} {
		if _, err := codec.New(aggregates...); err == nil {
			t.Errorf("double %s were taken", name)
		}
	}
	if a, ok := newFixture(t).Aggregate("page"); !ok || a.Kind != "page" {
		t.Error("the aggregate page is not found")
	}
}

func TestOpenReturnsWhatWasRecorded(t *testing.T) {
	f := newFixture(t)
	for _, text := range []string{"", "hello", "<a href=\"x\">&amp;</a> \u2028 \x00 é 👋", strings.Repeat("long ", 60_000)} {
		r := f.record(t, 1, nil, sample(text))
		got, err := f.Open(t.Context(), f.keys, r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample(text), got); diff != "" {
			t.Fatalf("opened (-want +got):\n%s", diff)
		}
		closed, err := f.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if closed.(written).Body.Text != "" {
			t.Fatal("decoding without a key shows content")
		}
		if len(text) > 4 && (bytes.Contains(r.Data, []byte(text)) || bytes.Contains(r.Sealed, []byte(text))) {
			t.Fatal("content stands in clear")
		}
		opened, salt, err := f.Text(t.Context(), f.keys, r)
		if err != nil {
			t.Fatal(err)
		}
		if !codec.Verify(opened, salt, r.SealDigest) || codec.Verify(append(opened, ' '), salt, r.SealDigest) || codec.Verify(opened, salt[1:], r.SealDigest) {
			t.Fatal("the digest does not tell the text from another")
		}
	}
}

func TestDataIsNeitherEscapedNorRewritten(t *testing.T) {
	f := newFixture(t)
	r := f.record(t, 1, nil, sample("x"))
	const want = `{"page":"1","words":2,"raw":{"a": "<b>&",  "c":[1.0, 1e3]},"marks":{"a":2,"z":1}}`
	if string(r.Data) != want {
		t.Fatalf("data is %s, want %s", r.Data, want)
	}
	r.Data = json.RawMessage("{ \"page\" : \"1\" ,\n\t\"odd\":[ 1.50, \"\\u003c\" ] }")
	value, err := codec.EncodeCommit(streams.Commit{Scope: ann, CommandID: command, Actor: actor, Events: []streams.Recorded{r}})
	if err != nil {
		t.Fatal(err)
	}
	back, err := codec.DecodeCommit(value)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Events[0].Data, r.Data) {
		t.Fatalf("data came back as %s", back.Events[0].Data)
	}
}

func TestLongContentIsSmallerSealed(t *testing.T) {
	f := newFixture(t)
	text := strings.Repeat("again and again ", 1000)
	if r := f.record(t, 1, nil, sample(text)); len(r.Sealed) > len(text)/4 {
		t.Fatalf("%d bytes of content are %d sealed", len(text), len(r.Sealed))
	}
}

// One schema serves several bubbles of virtual time, and what is outside of them.
func TestASchemaServesVirtualTime(t *testing.T) {
	f := newFixture(t)
	roundTrip := func(t *testing.T) {
		if _, err := f.Open(t.Context(), f.keys, f.record(t, 1, nil, sample(strings.Repeat("long ", 1000)))); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, roundTrip)
	synctest.Test(t, roundTrip)
	roundTrip(t)
}

func TestUnencodableContentIsRefused(t *testing.T) {
	f := newFixture(t)
	key, err := f.keys.Current(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	bad := sample("x")
	bad.Body.More = json.RawMessage(`{"a":`)
	if _, err := f.Record(key, ann, command, 0, page, 1, 1, at, actor, nil, bad); err == nil {
		t.Fatal("half a JSON value was recorded")
	}
	if _, err := f.Record(key, ann, command, 0, page, 1, 1, at, actor, nil, write{}); !errors.Is(err, codec.ErrUnknownType) {
		t.Fatalf("a command was recorded as an event: %v", err)
	}
	if _, err := f.Record(streams.Key{}, ann, command, 0, page, 1, 1, at, actor, nil, sample("x")); !errors.Is(err, streams.ErrKeyAbsent) {
		t.Fatalf("sealed without a key: %v", err)
	}
}

func TestUnknownTypesAndSchemasAreRefused(t *testing.T) {
	f := newFixture(t)
	r := f.record(t, 1, nil, torn{Why: "old"})
	for _, change := range []func(*streams.Recorded){
		func(r *streams.Recorded) { r.Type = "page.burned" },
		func(r *streams.Recorded) { r.Type = "page.tear" },
		func(r *streams.Recorded) { r.Schema = 2 },
		func(r *streams.Recorded) { r.Schema = 0 },
	} {
		other := r
		change(&other)
		if v, err := f.Decode(other); !errors.Is(err, codec.ErrUnknownType) || v != nil {
			t.Errorf("%s schema %d decoded to %v, %v", other.Type, other.Schema, v, err)
		}
	}
}

func TestOldSchemasAreRaised(t *testing.T) {
	f := newFixture(t)
	for schema, data := range map[int]string{1: `{"to":"shelf"}`, 2: `{"target":"shelf"}`, 3: `{"place":"shelf"}`} {
		got, err := f.Decode(streams.Recorded{Type: "page.moved", Schema: schema, Data: json.RawMessage(data)})
		if err != nil || got != (moved{Place: "shelf"}) {
			t.Errorf("schema %d became %v, %v", schema, got, err)
		}
	}
	if _, err := f.Decode(streams.Recorded{Type: "page.moved", Schema: 1, Data: json.RawMessage(`7`)}); !errors.Is(err, codec.ErrUndecodable) {
		t.Errorf("data that no upcaster understands: %v", err)
	}
	if r := f.record(t, 1, nil, moved{Place: "shelf"}); r.Schema != 3 {
		t.Errorf("written with schema %d, want 3", r.Schema)
	}
}

func TestErasedScopeShowsNoContent(t *testing.T) {
	f := newFixture(t)
	r := f.record(t, 1, nil, sample("secret"))
	f.keys.Cut()
	if got, err := f.Open(t.Context(), f.keys, r); !errors.Is(err, streams.ErrKeysUnreachable) || got.(written).Page != "1" || got.(written).Body.Text != "" {
		t.Fatalf("without the vault: %v, %v", got, err)
	}
	f.keys.Mend()
	if err := f.keys.Destroy(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	got, err := f.Open(t.Context(), f.keys, r)
	if !errors.Is(err, streams.ErrScopeErased) || errors.Is(err, codec.ErrUndecodable) {
		t.Fatalf("after erasure: %v, want ErrScopeErased", err)
	}
	want := sample("")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("after erasure (-want +got):\n%s", diff)
	}
	if !bytes.Equal(codec.Chain(codec.Genesis(page), r), r.Hash) {
		t.Fatal("after erasure the chain does not hold")
	}
}

// A blob opens only as the content of its own event, and a clear field changed breaks the chain.
func TestTamperingShows(t *testing.T) {
	f := newFixture(t)
	r := f.record(t, 2, []byte("previous"), sample(strings.Repeat("content ", 100)))
	other := f.record(t, 3, r.Hash, sample("other"))
	broken := map[string]func(*streams.Recorded){
		"another event's blob": func(r *streams.Recorded) { r.Sealed = other.Sealed },
		"a changed blob":       func(r *streams.Recorded) { r.Sealed[len(r.Sealed)/2] ^= 1 },
		"a cut blob":           func(r *streams.Recorded) { r.Sealed = r.Sealed[:5] },
		"another id":           func(r *streams.Recorded) { r.ID = other.ID },
		"another digest":       func(r *streams.Recorded) { r.SealDigest = other.SealDigest },
	}
	for name, change := range broken {
		changed := r
		changed.Sealed = bytes.Clone(r.Sealed)
		change(&changed)
		got, err := f.Open(t.Context(), f.keys, changed)
		if !errors.Is(err, codec.ErrUndecodable) && !errors.Is(err, codec.ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
		if got.(written).Body.Text != "" {
			t.Errorf("%s: content was shown", name)
		}
	}
	for name, change := range map[string]func(*streams.Recorded){
		"stream": func(r *streams.Recorded) { r.Stream = "page-2" }, "version": func(r *streams.Recorded) { r.Version++ },
		"id": func(r *streams.Recorded) { r.ID = other.ID }, "type": func(r *streams.Recorded) { r.Type = "page.torn" },
		"schema": func(r *streams.Recorded) { r.Schema++ }, "time": func(r *streams.Recorded) { r.At = "2026-11-30T12:00:00.123457Z" },
		"actor":  func(r *streams.Recorded) { r.Actor = json.RawMessage(`{"kind":"user","id":"bob"}`) },
		"data":   func(r *streams.Recorded) { r.Data = append(bytes.Clone(r.Data), ' ') },
		"digest": func(r *streams.Recorded) { r.SealDigest = other.SealDigest }, "no digest": func(r *streams.Recorded) { r.SealDigest = nil },
		// Lengths keep neighbours apart: bytes moved from one field to the next are another text.
		"moved bytes": func(r *streams.Recorded) { r.ID, r.Type = r.ID+"p", r.Type[1:] },
	} {
		changed := r
		change(&changed)
		if bytes.Equal(codec.Chain([]byte("previous"), changed), r.Hash) {
			t.Errorf("the chain does not see a changed %s", name)
		}
	}
	if bytes.Equal(codec.Chain([]byte("another"), r), r.Hash) {
		t.Error("the chain does not see another past")
	}
}

func TestCommitsComeBackAsTheyWere(t *testing.T) {
	f := newFixture(t)
	first := f.record(t, 1, nil, sample("one"))
	second := f.record(t, 2, first.Hash, torn{Why: "a \"quote\", a \\ and\nlines\t\x01"})
	whole := streams.Commit{
		Era: 2, Lead: 17, Writer: "w-1", CommandOffset: 812, After: streams.CommandPlace{Era: 1, Offset: 811}, Scope: ann,
		CommandID: command, Fingerprint: []byte{0, 1, 255}, DecidedAt: at, Actor: actor, CorrelationID: "c", CausationID: "b",
		Events: []streams.Recorded{first, second},
	}
	for i := range whole.Events {
		whole.Events[i].Era, whole.Events[i].CorrelationID, whole.Events[i].CausationID = 2, "c", "b"
	}
	rejection := whole
	rejection.Events = nil
	rejection.Rejected = &domain.Rejection{Code: "busy", Reason: "a <run> is active", Numbers: map[string]int64{"n": 1}}
	empty := whole
	empty.Events = nil
	for name, c := range map[string]streams.Commit{
		"events": whole, "rejection": rejection, "nothing": empty,
		"a command whose headers can't be read": {Era: 1, Lead: 1, Writer: "w", CommandOffset: 3, After: streams.CommandPlace{Offset: -1}, DecidedAt: at, Rejected: rejection.Rejected},
	} {
		value, err := codec.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(value) || bytes.Contains(value, []byte(`\u003c`)) {
			t.Fatalf("%s: encoded to %s", name, value)
		}
		got, err := codec.DecodeCommit(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	rejection.Events = whole.Events
	if _, err := codec.EncodeCommit(rejection); err == nil {
		t.Error("a rejection with events was encoded")
	}
	codec.Locate(&whole, 3, 99)
	if whole.Place != (streams.Place{Partition: 3, Offset: 99}) || whole.Events[1].Place != (streams.Place{Partition: 3, Offset: 99, Index: 1}) {
		t.Errorf("located at %+v and %+v", whole.Place, whole.Events[1].Place)
	}
}

func TestLeadsComeBackAsTheyWere(t *testing.T) {
	for _, l := range []codec.Lead{{Kind: "lead", Era: 1, Lead: 17, Writer: "w", At: at}, {Kind: "close", Era: 2, Lead: 3, Writer: "<é>", At: at}} {
		value, err := codec.EncodeLead(l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := codec.DecodeRecord(value)
		if err != nil || r.Commit != nil || *r.Lead != l {
			t.Errorf("%s became %+v, %v", value, r.Lead, err)
		}
		if _, err := codec.DecodeCommit(value); !errors.Is(err, codec.ErrUndecodable) {
			t.Errorf("a %s was taken for a commit: %v", l.Kind, err)
		}
	}
	if _, err := codec.EncodeLead(codec.Lead{Kind: "commit"}); err == nil {
		t.Error("a commit was encoded as a lead")
	}
}

func TestSealBytesIsBoundToItsPlace(t *testing.T) {
	f := newFixture(t)
	key, err := f.keys.Current(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := codec.SealBytes(key, "live/1", []byte("delta"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := codec.OpenBytes(key, "live/1", sealed); err != nil || string(plain) != "delta" {
		t.Fatalf("opened %q, %v", plain, err)
	}
	if _, err := codec.OpenBytes(key, "live/2", sealed); !errors.Is(err, codec.ErrUndecodable) {
		t.Fatalf("opened elsewhere: %v", err)
	}
}
