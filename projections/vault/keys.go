package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// opened is what the vault said of a scope at a time. It does not change once it is in the cache.
type opened struct {
	read      time.Time
	destroyed bool
	index     []byte
	keys      map[int]streams.Key
	current   int
}

// Current implements streams.Keys.
func (v *Vault) Current(ctx context.Context, scope domain.Scope) (streams.Key, error) {
	o, err := v.minted(ctx, scope)
	if err != nil {
		return streams.Key{}, err
	}
	key, ok := o.keys[o.current]
	if !ok {
		return streams.Key{}, fmt.Errorf("vault: %s has no data key that opens: %w", scope, streams.ErrKeyAbsent)
	}
	return key, nil
}

// Version implements streams.Keys.
func (v *Vault) Version(ctx context.Context, scope domain.Scope, version int) (streams.Key, error) {
	o, cached, err := v.known(ctx, scope)
	if err != nil {
		return streams.Key{}, err
	}
	key, ok := o.keys[version]
	if !ok && cached {
		// Another process may have rotated since.
		if o, err = v.read(ctx, scope); err != nil {
			return streams.Key{}, err
		}
		key, ok = o.keys[version]
	}
	if !ok {
		return streams.Key{}, fmt.Errorf("vault: key %d of %s: %w", version, scope, streams.ErrKeyAbsent)
	}
	return key, nil
}

// Index implements streams.Keys.
func (v *Vault) Index(ctx context.Context, scope domain.Scope) ([]byte, error) {
	o, err := v.minted(ctx, scope)
	if err != nil {
		return nil, err
	}
	if o.index == nil {
		return nil, fmt.Errorf("vault: %s has no index key that opens: %w", scope, streams.ErrKeyAbsent)
	}
	return bytes.Clone(o.index), nil
}

// Rotate adds a data key to a scope; this process seals with it at once, others within 60 s.
func (v *Vault) Rotate(ctx context.Context, scope domain.Scope) error {
	o, err := v.minted(ctx, scope)
	if err != nil {
		return err
	}
	next := o.current + 1
	wrapped, err := v.newDataKey(scope, next)
	if err != nil {
		return err
	}
	// A scope destroyed meanwhile has no index key; of two that rotate at once one inserts.
	if _, err := v.exec(ctx, `
		INSERT INTO data_keys (scope, version, wrapped, created_at)
		SELECT scope, $2, $3, $4 FROM scope_keys WHERE scope = $1 AND index_key IS NOT NULL FOR UPDATE
		ON CONFLICT DO NOTHING`, string(scope), next, wrapped, v.now()); err != nil {
		return err
	}
	_, err = v.read(ctx, scope)
	return err
}

// Destroy destroys the keys of an erased scope for ever. Other processes may open its content for 60 s more.
func (v *Vault) Destroy(ctx context.Context, scope domain.Scope) error {
	return v.bury(ctx, scope, "erased")
}

// Lost gives a lost key up: the scope's content will never be opened, and who waits for the key stops waiting.
func (v *Vault) Lost(ctx context.Context, scope domain.Scope) error {
	return v.bury(ctx, scope, "lost")
}

func (v *Vault) bury(ctx context.Context, scope domain.Scope, why string) error {
	err := v.within(ctx, func(ctx context.Context, tx pgx.Tx) error { return destroy(ctx, tx, scope, why, v.now()) })
	v.opened.Remove(scope)
	return err
}

// destroy writes the tombstone first: it waits for a mint that is under way and stops any later one.
func destroy(ctx context.Context, tx pgx.Tx, scope domain.Scope, why string, now time.Time) error {
	if _, err := tx.Exec(ctx, `
		INSERT INTO scope_keys AS s (scope, destroyed_at, destroyed_why, created_at) VALUES ($1, $2, $3, $2)
		ON CONFLICT (scope) DO UPDATE SET index_key = NULL,
			destroyed_at = COALESCE(s.destroyed_at, $2), destroyed_why = COALESCE(s.destroyed_why, $3)`,
		string(scope), now, why); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM data_keys WHERE scope = $1`, string(scope))
	return err
}

// known answers from the cache or the database, and whether it was the cache.
func (v *Vault) known(ctx context.Context, scope domain.Scope) (o *opened, cached bool, err error) {
	if o, ok := v.opened.Get(scope); ok && v.now().Sub(o.read) < keep {
		if o.destroyed {
			return nil, true, erasedError(scope)
		}
		return o, true, nil
	}
	o, err = v.read(ctx, scope)
	return o, false, err
}

// minted is known, and mints the scope's first keys where it has none. What was minted here counts only
// as it reads back: another process may have been first.
func (v *Vault) minted(ctx context.Context, scope domain.Scope) (*opened, error) {
	o, _, err := v.known(ctx, scope)
	if !errors.Is(err, streams.ErrKeyAbsent) {
		return o, err
	}
	if !scope.Valid() {
		return nil, fmt.Errorf("vault: %q is no scope: %w", scope, streams.ErrKeyAbsent)
	}
	used, err := v.used(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("vault: whether %s is new: %w: %w", scope, streams.ErrKeysUnreachable, err)
	}
	if used {
		return nil, fmt.Errorf("vault: %s has events, but no key any more (cairn keys lost gives it up): %w", scope, streams.ErrKeyAbsent)
	}
	if err := v.mint(ctx, scope); err != nil {
		return nil, err
	}
	return v.read(ctx, scope)
}

func (v *Vault) mint(ctx context.Context, scope domain.Scope) error {
	wrapped, err := v.newDataKey(scope, 1)
	if err != nil {
		return err
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return fmt.Errorf("vault: drawing an index key: %w", err)
	}
	index, err := v.kek.Encrypt(raw, wrapping(scope, 0))
	if err != nil {
		return fmt.Errorf("vault: wrapping an index key: %w", err)
	}
	return v.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO scope_keys (scope, index_key, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			string(scope), index, v.now())
		if err != nil || tag.RowsAffected() == 0 {
			return err // minted or destroyed by another: theirs stands
		}
		_, err = tx.Exec(ctx, `INSERT INTO data_keys (scope, version, wrapped, created_at) VALUES ($1, 1, $2, $3)`, string(scope), wrapped, v.now())
		return err
	})
}

// read asks the database, in one statement, and remembers the answer. A scope without a row is ErrKeyAbsent.
func (v *Vault) read(ctx context.Context, scope domain.Scope) (*opened, error) {
	if err := v.Check(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := &opened{read: v.now(), keys: map[int]streams.Key{}}
	rows, err := v.pool.Query(ctx, `
		SELECT s.destroyed_at IS NOT NULL, s.index_key, COALESCE(k.version, 0), k.wrapped
		FROM scope_keys s LEFT JOIN data_keys k ON k.scope = s.scope WHERE s.scope = $1`, string(scope))
	if err != nil {
		return nil, unreachable(err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var version int
		var index, wrapped []byte
		if err := rows.Scan(&o.destroyed, &index, &version, &wrapped); err != nil {
			return nil, unreachable(err)
		}
		found = true
		v.unwrap(o, scope, index, version, wrapped)
	}
	if err := rows.Err(); err != nil {
		return nil, unreachable(err)
	}
	if !found {
		return nil, fmt.Errorf("vault: %s: %w", scope, streams.ErrKeyAbsent)
	}
	v.opened.Add(scope, o)
	if o.destroyed {
		return nil, erasedError(scope)
	}
	return o, nil
}

// unwrap adds a row to o. With the right master key (Check) a key that does not unwrap is damaged, and
// damaged is absent: nobody mints a second, and an operator may give it up.
func (v *Vault) unwrap(o *opened, scope domain.Scope, index []byte, version int, wrapped []byte) {
	if raw, err := v.kek.Decrypt(index, wrapping(scope, 0)); err == nil {
		o.index = raw
	}
	if version == 0 {
		return
	}
	o.current = max(o.current, version)
	handle, err := keyset.ReadWithAssociatedData(keyset.NewBinaryReader(bytes.NewReader(wrapped)), v.kek, wrapping(scope, version))
	if err != nil {
		return
	}
	if primitive, err := aead.New(handle); err == nil {
		o.keys[version] = streams.Key{Version: version, AEAD: primitive}
	}
}

func (v *Vault) newDataKey(scope domain.Scope, version int) ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("vault: drawing a data key: %w", err)
	}
	var wrapped bytes.Buffer
	if err := handle.WriteWithAssociatedData(keyset.NewBinaryWriter(&wrapped), v.kek, wrapping(scope, version)); err != nil {
		return nil, fmt.Errorf("vault: wrapping a data key: %w", err)
	}
	return wrapped.Bytes(), nil
}

// forget drops what is older than keys may stay in memory.
func (v *Vault) forget() {
	for _, scope := range v.opened.Keys() {
		if o, ok := v.opened.Peek(scope); ok && v.now().Sub(o.read) >= keep {
			v.opened.Remove(scope)
		}
	}
}

// wrapping binds a wrapped key to its scope and version; the index key is number 0.
func wrapping(scope domain.Scope, version int) []byte {
	return fmt.Appendf(nil, "%s\n%d", scope, version)
}

func erasedError(scope domain.Scope) error {
	return fmt.Errorf("vault: %s: %w", scope, streams.ErrScopeErased)
}
