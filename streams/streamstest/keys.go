package streamstest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Vault is what the laws of streams.Keys need to be told about a vault under test.
type Vault struct {
	// Open is one more process that uses the vault, with its own cache.
	Open func(*testing.T) streams.Keys
	// Destroy destroys a scope's keys and leaves a tombstone.
	Destroy func(context.Context, domain.Scope) error
	// Cut makes the vault unreachable for all, Mend reachable again.
	Cut, Mend func()
	// Later moves the clock of every process.
	Later func(time.Duration)
}

// cached is a little more than a process may keep an opened key.
const cached = 61 * time.Second

// Keys runs the laws of streams.Keys on vaults that open makes, each empty.
func Keys(t *testing.T, open func(*testing.T) Vault) {
	for name, law := range map[string]func(*testing.T, Vault){
		"a scope has one key, however many mint it":      oneKey,
		"a key opens what it sealed, and only that":      opensWhatItSealed,
		"a key survives the process":                     survives,
		"a version that is not there is absent":          absent,
		"the index key is one, of 32 bytes, per scope":   indexKey,
		"a destroyed scope is erased and mints no other": erased,
		"destroying before the first key leaves no key":  destroyedFirst,
		"an unreachable vault is neither of the two":     unreachable,
	} {
		t.Run(name, func(t *testing.T) { law(t, open(t)) })
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func sealed(t *testing.T, k streams.Key, text string) []byte {
	t.Helper()
	return must(k.AEAD.Encrypt([]byte(text), []byte("aad")))(t)
}

func oneKey(t *testing.T, v Vault) {
	ctx := t.Context()
	keys := make([]streams.Key, 16)
	index := make([][]byte, len(keys))
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i := range keys {
		process := v.Open(t)
		all.Go(func() {
			var err error
			keys[i], errs[i] = process.Current(ctx, ann)
			index[i], err = process.Index(ctx, ann)
			errs[i] = errors.Join(errs[i], err)
		})
	}
	all.Wait()
	for i := range keys {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if keys[i].Version != keys[0].Version || !bytes.Equal(index[i], index[0]) {
			t.Fatalf("process %d has key %d, process 0 has %d", i, keys[i].Version, keys[0].Version)
		}
		if _, err := keys[0].AEAD.Decrypt(sealed(t, keys[i], "hello"), []byte("aad")); err != nil {
			t.Fatalf("process 0 can't open what process %d sealed: %v", i, err)
		}
	}
}

func opensWhatItSealed(t *testing.T, v Vault) {
	keys, ctx := v.Open(t), t.Context()
	a, b := must(keys.Current(ctx, ann))(t), must(keys.Current(ctx, bob))(t)
	for _, text := range []string{"", "hello", string(make([]byte, 1<<16))} {
		blob := sealed(t, a, text)
		if got := must(a.AEAD.Decrypt(blob, []byte("aad")))(t); string(got) != text {
			t.Fatalf("opened %q, sealed %q", got, text)
		}
		if bytes.Equal(blob, sealed(t, a, text)) {
			t.Fatal("the same text was sealed to the same bytes twice")
		}
		if _, err := a.AEAD.Decrypt(blob, []byte("other")); err == nil {
			t.Fatal("opened with other associated data")
		}
		if _, err := b.AEAD.Decrypt(blob, []byte("aad")); err == nil {
			t.Fatal("bob's key opened what ann's sealed")
		}
		for _, at := range []int{0, len(blob) / 2, len(blob) - 1} {
			changed := bytes.Clone(blob)
			changed[at] ^= 1
			if _, err := a.AEAD.Decrypt(changed, []byte("aad")); err == nil {
				t.Fatalf("opened with byte %d changed", at)
			}
		}
		for _, cut := range [][]byte{nil, blob[:1], blob[:len(blob)-1]} {
			if _, err := a.AEAD.Decrypt(cut, []byte("aad")); err == nil {
				t.Fatalf("opened %d bytes of %d", len(cut), len(blob))
			}
		}
	}
}

func survives(t *testing.T, v Vault) {
	ctx := t.Context()
	first := must(v.Open(t).Current(ctx, ann))(t)
	blob := sealed(t, first, "hello")
	later := must(v.Open(t).Version(ctx, ann, first.Version))(t)
	if got := must(later.AEAD.Decrypt(blob, []byte("aad")))(t); string(got) != "hello" {
		t.Fatalf("opened %q", got)
	}
	v.Later(cached)
	if again := must(v.Open(t).Current(ctx, ann))(t); again.Version != first.Version {
		t.Fatalf("current is version %d, was %d", again.Version, first.Version)
	}
}

func absent(t *testing.T, v Vault) {
	keys, ctx := v.Open(t), t.Context()
	if _, err := keys.Version(ctx, ann, 1); !errors.Is(err, streams.ErrKeyAbsent) {
		t.Fatalf("version 1 before any: %v, want ErrKeyAbsent", err)
	}
	current := must(keys.Current(ctx, ann))(t)
	if must(keys.Version(ctx, ann, current.Version))(t).Version != current.Version {
		t.Fatal("the key has another version than it was asked by")
	}
	for _, version := range []int{0, -1, current.Version + 1} {
		if _, err := keys.Version(ctx, ann, version); !errors.Is(err, streams.ErrKeyAbsent) {
			t.Fatalf("version %d: %v, want ErrKeyAbsent", version, err)
		}
	}
}

func indexKey(t *testing.T, v Vault) {
	ctx := t.Context()
	a := must(v.Open(t).Index(ctx, ann))(t)
	if len(a) != 32 {
		t.Fatalf("an index key of %d bytes", len(a))
	}
	must(v.Open(t).Current(ctx, ann))(t)
	v.Later(cached)
	if again := must(v.Open(t).Index(ctx, ann))(t); !bytes.Equal(again, a) {
		t.Fatal("the index key changed")
	}
	if bytes.Equal(a, must(v.Open(t).Index(ctx, bob))(t)) {
		t.Fatal("two scopes share an index key")
	}
}

func erased(t *testing.T, v Vault) {
	keys, ctx := v.Open(t), t.Context()
	must(keys.Current(ctx, ann))(t)
	must(keys.Current(ctx, bob))(t)
	if err := v.Destroy(ctx, ann); err != nil {
		t.Fatal(err)
	}
	v.Later(cached)
	for range 2 {
		isErased(t, keys)
		isErased(t, v.Open(t))
		if err := v.Destroy(ctx, ann); err != nil {
			t.Fatalf("destroying again: %v", err)
		}
	}
	must(keys.Current(ctx, bob))(t)
}

func destroyedFirst(t *testing.T, v Vault) {
	if err := v.Destroy(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	isErased(t, v.Open(t))
}

func isErased(t *testing.T, keys streams.Keys) {
	t.Helper()
	_, err1 := keys.Current(t.Context(), ann)
	_, err2 := keys.Version(t.Context(), ann, 1)
	_, err3 := keys.Index(t.Context(), ann)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, streams.ErrScopeErased) || errors.Is(err, streams.ErrKeyAbsent) {
			t.Fatalf("a destroyed key: %v, want ErrScopeErased", err)
		}
	}
}

func unreachable(t *testing.T, v Vault) {
	keys, ctx := v.Open(t), t.Context()
	first := must(keys.Current(ctx, ann))(t)
	v.Later(cached)
	v.Cut()
	_, err1 := keys.Current(ctx, ann)
	_, err2 := keys.Version(ctx, ann, first.Version)
	_, err3 := keys.Index(ctx, bob)
	v.Mend()
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, streams.ErrKeysUnreachable) || errors.Is(err, streams.ErrKeyAbsent) || errors.Is(err, streams.ErrScopeErased) {
			t.Fatalf("a vault that can't be reached: %v, want ErrKeysUnreachable", err)
		}
	}
	if got := must(keys.Current(ctx, ann))(t); got.Version != first.Version {
		t.Fatalf("after the cut the key is version %d, was %d", got.Version, first.Version)
	}
}
