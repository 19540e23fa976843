package load

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// reader is a subscriber of a scope that fetches what came after the last event it holds, from whichever process answers.
type reader struct {
	*user
	is    *history.Subscriber
	after uint64
}

func newReader(u *user, name string) *reader {
	return &reader{user: u, is: u.load.history.Subscribe(name, u.scope, "", 0)}
}

const readEvery = 500 * time.Millisecond

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = r.fetch(ctx) // what could not be fetched now is fetched next time
		wait(ctx, readEvery)
	}
}

// fetch takes the next events, and answers how many there were.
func (r *reader) fetch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	token, err := r.token(ctx)
	if err != nil {
		return 0, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/events?after=%d&limit=200", r.load.urls.API, r.after), nil)
	if err != nil {
		return 0, err
	}
	q.Header.Set("Authorization", "Bearer "+token)
	resp, err := r.load.http.Do(q)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var page struct {
		Code string
		Data []struct {
			ID       string
			Position uint64
			Hash     string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		if page.Code == "unauthorized" {
			r.enter(ctx)
		}
		return 0, fmt.Errorf("%s %s", resp.Status, page.Code)
	}
	for _, e := range page.Data {
		hash, err := hex.DecodeString(e.Hash)
		if err != nil {
			return 0, err
		}
		r.is.Delivered(e.Position, e.ID, hash)
		r.after = e.Position
	}
	return len(page.Data), nil
}

// level reads until there is no more, and says so.
func (r *reader) level(ctx context.Context) error {
	for {
		n, err := r.fetch(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("a subscriber does not get to the end: %w (%w)", ctx.Err(), err)
		}
		if err == nil && n == 0 {
			r.is.Level()
			return nil
		}
		if err != nil {
			wait(ctx, readEvery)
		}
	}
}
