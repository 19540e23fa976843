package follow

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// link is a stream as far as it is known: its newest version and that one's hash.
type link struct {
	seq  uint64
	hash []byte
}

// genesis is what stands before a stream's first event.
func genesis(stream string) link {
	h := sha256.Sum256([]byte(stream))
	return link{hash: h[:]}
}

// chained is the hash of an event after the one before it: SHA-256 over the previous hash, stream, version, id, type,
// schema, time, actor, data and seal digest as they are stored, each preceded by its length as 8 bytes big-endian.
func chained(prev []byte, e Event, digest []byte) []byte {
	var b []byte
	add := func(part string) {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	add(string(prev))
	add(e.Stream)
	add(strconv.FormatUint(e.Seq, 10))
	add(e.ID)
	add(e.Type)
	add(strconv.Itoa(e.Schema))
	add(e.Stored.At)
	add(e.Stored.Actor)
	add(e.Stored.Data)
	add(string(digest))
	h := sha256.Sum256(b)
	return h[:]
}

// follows says why an event is not what comes after prev, or "". Without a known hash before it, its own is believed.
func follows(prev *link, e Event) (next link, why string) {
	hash, err := hex.DecodeString(e.Hash)
	if err != nil || len(hash) != sha256.Size {
		return link{}, "has no hash"
	}
	next = link{seq: e.Seq, hash: hash}
	if e.Stored == nil {
		return next, "came without its stored bytes"
	}
	digest, err := hex.DecodeString(e.SealDigest)
	if err != nil {
		return link{}, "has a digest that is none"
	}
	if why := shown(e, digest); why != "" {
		return next, why
	}
	if prev != nil && prev.hash != nil && !bytes.Equal(chained(prev.hash, e, digest), hash) {
		return next, "does not chain to the one before it"
	}
	return next, ""
}

// shown holds what is shown of an event against what is stored, and the content against its digest.
func shown(e Event, digest []byte) string {
	if e.Stored.At != e.At || e.Stored.Actor != string(e.Actor) {
		return "shows another time or actor than is stored"
	}
	text := ""
	if e.Stored.Text != nil {
		text = *e.Stored.Text
		salt, err := hex.DecodeString(e.Salt)
		if err != nil || len(salt) == 0 {
			return "has content without a salt"
		}
		mac := hmac.New(sha256.New, salt)
		mac.Write([]byte(text))
		if !hmac.Equal(mac.Sum(nil), digest) {
			return "has content of another digest"
		}
	}
	var stored, data map[string]json.RawMessage
	if json.Unmarshal([]byte(e.Stored.Data), &stored) != nil || json.Unmarshal(e.Data, &data) != nil {
		return "has data that is no object"
	}
	if text != "" {
		if stored == nil {
			stored = map[string]json.RawMessage{}
		}
		stored["content"] = json.RawMessage(text)
	}
	if len(stored) != len(data) {
		return "shows other data than is stored"
	}
	for name, value := range stored {
		if !bytes.Equal(value, data[name]) {
			return "shows other data than is stored"
		}
	}
	return ""
}
