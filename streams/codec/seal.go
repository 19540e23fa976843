package codec

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// An opened blob is one byte that says how the text is kept, the salt of its digest, and the text.
const (
	packNone = 0
	packZstd = 1

	saltSize = 32
	// packOver is the size in bytes from which content is compressed before it is sealed.
	packOver = 256
	// maxContent bounds what a small blob may unpack to, 64 MiB; the largest commit is 2 MiB.
	maxContent = 64 << 20
)

// SealBytes seals what is neither event nor command: provisional frames, parked messages, answers. It is not compressed.
func SealBytes(key streams.Key, aad string, plain []byte) ([]byte, error) {
	sealed, err := key.AEAD.Encrypt(plain, []byte(aad))
	if err != nil {
		return nil, fmt.Errorf("codec: sealing: %w", err)
	}
	return sealed, nil
}

// OpenBytes opens what SealBytes sealed with the same key and associated data. Anything else is ErrUndecodable.
func OpenBytes(key streams.Key, aad string, sealed []byte) ([]byte, error) {
	plain, err := key.AEAD.Decrypt(sealed, []byte(aad))
	if err != nil {
		return nil, fmt.Errorf("codec: opening: %w: %w", ErrUndecodable, err)
	}
	return plain, nil
}

// Verify reports whether a text, with the salt of its blob, has that digest.
func Verify(text, salt, digest []byte) bool {
	return hmac.Equal(sum(text, salt), digest)
}

// Fingerprint says which request stands under a command id: HMAC-SHA-256 of it under the scope's index key.
func Fingerprint(index, request []byte) []byte {
	return sum(request, index)
}

// aad binds a blob to its scope and to the event or command it belongs to. A scope holds no newline.
func aad(scope domain.Scope, id string) []byte {
	b := make([]byte, 0, len(scope)+1+len(id))
	return append(append(append(b, scope...), '\n'), id...)
}

func sum(text, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// seal makes a blob of content and answers its digest.
func (s *Schema) seal(key streams.Key, scope domain.Scope, id string, content []byte) (sealed, digest []byte, err error) {
	if key.AEAD == nil {
		return nil, nil, fmt.Errorf("codec: no key to seal with in %s: %w", scope, streams.ErrKeyAbsent)
	}
	blob := make([]byte, 1+saltSize, 1+saltSize+len(content))
	if _, err := rand.Read(blob[1:]); err != nil {
		return nil, nil, fmt.Errorf("codec: drawing a salt: %w", err)
	}
	digest = sum(content, blob[1:])
	if len(content) > packOver {
		blob[0] = packZstd
		blob = s.pack.EncodeAll(content, blob)
	} else {
		blob[0] = packNone
		blob = append(blob, content...)
	}
	if sealed, err = key.AEAD.Encrypt(blob, aad(scope, id)); err != nil {
		return nil, nil, fmt.Errorf("codec: sealing: %w", err)
	}
	return sealed, digest, nil
}

// open is the inverse of seal.
func (s *Schema) open(ctx context.Context, keys streams.Keys, scope domain.Scope, id string, version int, sealed []byte) (text, salt []byte, err error) {
	key, err := keys.Version(ctx, scope, version)
	if err != nil {
		return nil, nil, fmt.Errorf("codec: key %d of %s: %w", version, scope, err)
	}
	blob, err := key.AEAD.Decrypt(sealed, aad(scope, id))
	if err != nil {
		return nil, nil, fmt.Errorf("codec: opening %s of %s: %w: %w", id, scope, ErrUndecodable, err)
	}
	if len(blob) < 1+saltSize {
		return nil, nil, fmt.Errorf("codec: the blob of %s is cut off: %w", id, ErrUndecodable)
	}
	salt, text = blob[1:1+saltSize], blob[1+saltSize:]
	switch blob[0] {
	case packNone:
		return text, salt, nil
	case packZstd:
		if text, err = s.unpack.DecodeAll(text, nil); err != nil {
			return nil, nil, fmt.Errorf("codec: unpacking %s: %w: %w", id, ErrUndecodable, err)
		}
		return text, salt, nil
	default:
		return nil, nil, fmt.Errorf("codec: the blob of %s is packed in an unknown way: %w", id, ErrUndecodable)
	}
}
