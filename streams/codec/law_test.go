package codec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// The chain as DESIGN section 3 says it, written a second time.
func chain(prev []byte, r streams.Recorded) []byte {
	h := sha256.New()
	for _, part := range [][]byte{
		prev, []byte(r.Stream), fmt.Append(nil, r.Version), []byte(r.ID), []byte(r.Type), fmt.Append(nil, r.Schema),
		[]byte(r.At), r.Actor, r.Data, r.SealDigest,
	} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return h.Sum(nil)
}

func TestChainIsTheDesigns(t *testing.T) {
	genesis := sha256.Sum256([]byte("page-1"))
	if !bytes.Equal(codec.Genesis("page-1"), genesis[:]) {
		t.Fatal("a stream begins with the hash of its id")
	}
	rapid.Check(t, func(t *rapid.T) {
		r := recorded(t)
		prev := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "prev")
		if !bytes.Equal(codec.Chain(prev, r), chain(prev, r)) {
			t.Fatal("chained otherwise")
		}
	})
	// One known answer, so that both can't drift together.
	const want = "929a0c06a4d23b57adcdfd7a911b0437fec5d661e1c442d84dd91d058fba9beb"
	got := fmt.Sprintf("%x", codec.Chain(genesis[:], streams.Recorded{
		Stream: "page-1", Version: 1, ID: command, Type: "page.torn", Schema: 1, At: at, Actor: actor, Data: json.RawMessage(`{"why":"old"}`),
	}))
	if got != want {
		t.Fatalf("the known event hashes to %s, want %s", got, want)
	}
}

func recorded(t *rapid.T) streams.Recorded {
	raw := func(name string) json.RawMessage {
		b, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return streams.Recorded{
		ID: rapid.StringMatching(`[0-9a-f-]{0,36}`).Draw(t, "id"), Stream: domain.Stream(rapid.String().Draw(t, "stream")),
		Version: rapid.Uint64Max(1<<62).Draw(t, "version"), Position: rapid.Uint64Max(1<<62).Draw(t, "position"),
		Type: rapid.String().Draw(t, "type"), Schema: rapid.IntRange(0, 99).Draw(t, "schema"), Data: raw("data"),
		SealDigest: rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "digest"), Hash: rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "hash"),
	}
}

// Any commit that can be written reads back the same, and is valid JSON for every other reader.
func TestEncodeThenDecodeIsIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := streams.Commit{
			Era: rapid.IntRange(0, 9).Draw(t, "era"), Lead: rapid.Int64().Draw(t, "lead"), Writer: rapid.String().Draw(t, "writer"),
			CommandOffset: rapid.Int64().Draw(t, "offset"), After: streams.CommandPlace{Era: 1, Offset: rapid.Int64().Draw(t, "after")},
			Scope: domain.Scope(rapid.String().Draw(t, "scope")), CommandID: rapid.String().Draw(t, "command"),
			DecidedAt: rapid.String().Draw(t, "at"), Actor: actor, CorrelationID: rapid.String().Draw(t, "correlation"),
		}
		if rapid.Bool().Draw(t, "rejected") {
			c.Rejected = &domain.Rejection{Code: rapid.String().Draw(t, "code"), Reason: rapid.String().Draw(t, "reason")}
		} else {
			for i := range rapid.IntRange(0, 4).Draw(t, "events") {
				r := recorded(t)
				r.Scope, r.CommandID, r.CorrelationID, r.At, r.Actor, r.Era, r.Place.Index = c.Scope, c.CommandID, c.CorrelationID, c.DecidedAt, c.Actor, c.Era, i
				if r.Sealed = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "sealed"); len(r.Sealed) == 0 {
					r.SealDigest = nil
				} else {
					r.Key = rapid.IntRange(1, 9).Draw(t, "key")
				}
				c.Events = append(c.Events, r)
			}
		}
		value, err := codec.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(value) {
			t.Fatalf("no JSON: %s", value)
		}
		got, err := codec.DecodeCommit(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	x := newFixture(f)
	r := x.record(f, 1, nil, sample("hello"))
	commit, err := codec.EncodeCommit(streams.Commit{Era: 1, Lead: 1, Writer: "w", Scope: ann, CommandID: command, DecidedAt: at, Actor: actor, Events: []streams.Recorded{r}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(commit)
	f.Add(commit[:len(commit)/2])
	for _, seed := range []string{
		"", "null", "{}", "[]", `{"v":1}`, `{"v":1,"kind":"lead"}`, `{"v":1,"kind":"commit","events":[null,{}]}`, `{"v":1,"kind":"commit","after":[1]}`,
		`{"v":1,"kind":"commit","after":[1,2,3],"events":null}`, `{"v":1,"kind":"commit","fingerprint":"!"}`, `{"v":1e400}`, "\x00", "\xff\xfe", `{"v":1,"kind":"commit","scope":"\ud800"}`,
		`{"v":1,"kind":"commit","events":[{"version":-1}]}`, `{"v":1,"kind":"commit","rejected":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		record, err := codec.DecodeRecord(value)
		if err != nil || record.Commit == nil {
			return
		}
		for _, r := range record.Commit.Events {
			if _, err := x.Decode(r); err == nil {
				_, _ = x.Open(t.Context(), x.keys, r)
			}
			codec.Chain(nil, r)
		}
		if record.Commit.Rejected != nil && len(record.Commit.Events) > 0 {
			return
		}
		again, err := codec.EncodeCommit(*record.Commit)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.DecodeCommit(again)
		if err != nil {
			t.Fatalf("%s was decoded, encoded and is undecodable: %v", value, err)
		}
		if diff := cmp.Diff(*record.Commit, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s reads otherwise once it was written again (-read +again):\n%s", value, diff)
		}
	})
}

func FuzzDecodeCommand(f *testing.F) {
	x := newFixture(f)
	value, err := x.EncodeCommand(f.Context(), x.keys, envelope(write{Page: "1", Body: body{Text: "hello"}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	for _, seed := range []string{"", "null", "{}", `{"v":1,"scope":"user-a","id":"5f0c4b1e-1111-5222-8333-944455566677","actor":null,"type":"page.tear","schema":1,"data":null}`, `{"v":1,"known":[]}`, `{"v":1,"sealed":"AA=="}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := x.DecodeCommand(t.Context(), x.keys, value)
		if (err == nil) != (c.Body != nil) {
			t.Fatalf("body %v and error %v", c.Body, err)
		}
	})
}
