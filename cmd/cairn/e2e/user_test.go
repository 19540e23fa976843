package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/clients/api"
	"github.com/cairnhq/cairn/clients/device"
)

// user is an account and its client.
type user struct {
	*api.Client
	t     *testing.T
	p     *process
	email string
	scope string
}

// password is everybody's.
const password = "a long enough password"

func newUser(ctx context.Context, t *testing.T, p *process) *user {
	t.Helper()
	client := api.New(p.url())
	email := uuid.NewString()[:8] + "@example.com"
	account, err := client.Register(ctx, email, password)
	if err != nil {
		t.Fatal(err)
	}
	return &user{Client: client, t: t, p: p, email: email, scope: account.Scope}
}

// device is a running device of the user; it ends with the test.
func (u *user) device(change func(*device.Options)) *device.Device {
	u.t.Helper()
	store, err := device.OpenStore(context.Background(), filepath.Join(u.t.TempDir(), "device.db"), nil)
	if err != nil {
		u.t.Fatal(err)
	}
	options := device.Options{
		URL: u.p.url(), Token: u.Token, DeviceID: uuid.NewString(), Name: "test", Timezone: "Europe/Berlin", Store: store,
		MinBackoff: 50 * time.Millisecond, MaxBackoff: 300 * time.Millisecond,
	}
	if change != nil {
		change(&options)
	}
	d, err := device.New(options)
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	u.t.Cleanup(func() {
		cancel()
		running.Wait()
		store.Close()
	})
	return d
}

// entry is a row of a timeline.
type entry struct {
	Seq  uint64         `json:"seq"`
	Kind string         `json:"kind"`
	Item map[string]any `json:"item"`
}

// timeline is the whole of a thread as of a position; a hole in it fails the test.
func (u *user) timeline(ctx context.Context, thread, position string) []entry {
	u.t.Helper()
	var page struct {
		Entries []entry `json:"entries"`
	}
	if err := u.Get(ctx, fmt.Sprintf("/api/v1/threads/%s/timeline?direction=after&seq=0&limit=0&min_position=%s", thread, position), &page); err != nil {
		u.t.Fatal(err)
	}
	for i, e := range page.Entries {
		if e.Seq != uint64(i+1) {
			u.t.Fatalf("the timeline has a hole: entry %d has seq %d", i, e.Seq)
		}
	}
	return page.Entries
}

func count(entries []entry, kind string) (n int) {
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
