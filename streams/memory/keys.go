package memory

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Keys implements streams.Keys. Its cut connection, lost and destroyed keys are those of the vault.
type Keys struct {
	mu     sync.Mutex
	cut    bool
	scopes map[domain.Scope]*scopeKeys
}

type scopeKeys struct {
	destroyed bool
	versions  []streams.Key // version n at n-1
	index     []byte
}

// NewKeys is a vault without keys.
func NewKeys() *Keys { return &Keys{scopes: map[domain.Scope]*scopeKeys{}} }

// Current implements streams.Keys.
func (k *Keys) Current(ctx context.Context, scope domain.Scope) (streams.Key, error) {
	s, err := k.get(ctx, scope, true)
	if err != nil {
		return streams.Key{}, err
	}
	return s.versions[len(s.versions)-1], nil
}

// Version implements streams.Keys.
func (k *Keys) Version(ctx context.Context, scope domain.Scope, version int) (streams.Key, error) {
	s, err := k.get(ctx, scope, false)
	if err != nil {
		return streams.Key{}, err
	}
	if version < 1 || version > len(s.versions) {
		return streams.Key{}, streams.ErrKeyAbsent
	}
	return s.versions[version-1], nil
}

// Index implements streams.Keys.
func (k *Keys) Index(ctx context.Context, scope domain.Scope) ([]byte, error) {
	s, err := k.get(ctx, scope, true)
	if err != nil {
		return nil, err
	}
	return s.index, nil
}

// Rotate adds a version, which Current answers from now on.
func (k *Keys) Rotate(ctx context.Context, scope domain.Scope) error {
	if _, err := k.get(ctx, scope, true); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.scopes[scope]
	key, err := newKey(len(old.versions) + 1)
	if err != nil {
		return err
	}
	k.scopes[scope] = &scopeKeys{versions: append(append([]streams.Key{}, old.versions...), key), index: old.index}
	return nil
}

// Destroy destroys a scope's keys and leaves a tombstone: no second key is ever minted.
func (k *Keys) Destroy(_ context.Context, scope domain.Scope) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scopes[scope] = &scopeKeys{destroyed: true}
	return nil
}

// Cut makes the vault unreachable, Mend reachable again.
func (k *Keys) Cut() { k.connect(true) }

// Mend undoes Cut.
func (k *Keys) Mend() { k.connect(false) }

func (k *Keys) connect(cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = cut
}

func (k *Keys) get(ctx context.Context, scope domain.Scope, mint bool) (*scopeKeys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		return nil, streams.ErrKeysUnreachable
	}
	s, ok := k.scopes[scope]
	switch {
	case ok && !s.destroyed:
		return s, nil // from memory, as the vault does it: whether ctx is over or not
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ok:
		return nil, streams.ErrScopeErased
	case !mint:
		return nil, streams.ErrKeyAbsent
	}
	key, err := newKey(1)
	if err != nil {
		return nil, err
	}
	s = &scopeKeys{versions: []streams.Key{key}, index: make([]byte, 32)}
	if _, err := rand.Read(s.index); err != nil {
		return nil, fmt.Errorf("memory: drawing an index key: %w", err)
	}
	k.scopes[scope] = s
	return s, nil
}

func newKey(version int) (streams.Key, error) {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return streams.Key{}, fmt.Errorf("memory: drawing a key: %w", err)
	}
	block, err := aes.NewCipher(raw[:])
	if err != nil {
		return streams.Key{}, fmt.Errorf("memory: %w", err)
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return streams.Key{}, fmt.Errorf("memory: %w", err)
	}
	return streams.Key{Version: version, AEAD: gcm{sealer}}, nil
}

// gcm is AES-256-GCM with the nonce before the ciphertext.
type gcm struct{ sealer cipher.AEAD }

var errShort = errors.New("memory: the ciphertext is cut off")

// Encrypt implements streams.AEAD.
func (g gcm) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return g.sealer.Seal(nil, nil, plaintext, associatedData), nil //nolint:gosec // the sealer draws the nonce
}

// Decrypt implements streams.AEAD.
func (g gcm) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if len(ciphertext) < g.sealer.Overhead() {
		return nil, errShort
	}
	return g.sealer.Open(nil, nil, ciphertext, associatedData)
}
