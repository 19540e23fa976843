package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/memory"
	"github.com/cairnhq/cairn/streams/streamstest"
)

func TestStates(t *testing.T) {
	streamstest.States(t, func(*testing.T) streams.States { return memory.NewStates() })
}

func TestKeys(t *testing.T) {
	streamstest.Keys(t, func(*testing.T) streamstest.Vault {
		keys := memory.NewKeys()
		return streamstest.Vault{
			Open:    func(*testing.T) streams.Keys { return keys },
			Destroy: func(ctx context.Context, scope domain.Scope) error { return keys.Destroy(ctx, scope) },
			Cut:     keys.Cut, Mend: keys.Mend,
			Later: func(time.Duration) {},
		}
	})
}

// A rotated key seals anew; what the old one sealed stays readable.
func TestRotateKeepsOldVersions(t *testing.T) {
	keys, ctx := memory.NewKeys(), t.Context()
	old, err := keys.Current(ctx, "user-a")
	if err != nil {
		t.Fatal(err)
	}
	blob, err := old.AEAD.Encrypt([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(ctx, "user-a"); err != nil {
		t.Fatal(err)
	}
	current, err := keys.Current(ctx, "user-a")
	if err != nil || current.Version != old.Version+1 {
		t.Fatalf("current is %d (%v), want %d", current.Version, err, old.Version+1)
	}
	back, err := keys.Version(ctx, "user-a", old.Version)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := back.AEAD.Decrypt(blob, nil); err != nil || string(got) != "x" {
		t.Fatalf("opened %q, %v", got, err)
	}
}
