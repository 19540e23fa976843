package codec

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Genesis is what stands before a stream's version 1: SHA-256 of the stream id.
func Genesis(stream domain.Stream) []byte {
	h := sha256.Sum256([]byte(stream))
	return h[:]
}

// Chain is the hash of r after prev: SHA-256 over the previous hash, stream, version, id, type, schema,
// decided_at, actor, clear data and seal digest, each preceded by its length as 8 bytes big-endian. Who
// cannot open the content can still check it; no guess at erased content can be tested against it.
func Chain(prev []byte, r streams.Recorded) []byte {
	var room [1024]byte
	var number [20]byte
	b := link(room[:0], prev)
	b = linkText(b, string(r.Stream))
	b = link(b, strconv.AppendUint(number[:0], r.Version, 10))
	b = linkText(b, r.ID)
	b = linkText(b, r.Type)
	b = link(b, strconv.AppendInt(number[:0], int64(r.Schema), 10))
	b = linkText(b, r.At)
	b = link(b, r.Actor)
	b = link(b, r.Data)
	b = link(b, r.SealDigest)
	h := sha256.Sum256(b)
	return h[:]
}

func link(b, part []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

func linkText(b []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}
