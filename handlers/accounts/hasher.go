package accounts

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/alexedwards/argon2id"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/cairnhq/cairn/streams"
)

const (
	saltLength = 16
	keyLength  = 32
	// limited is how many e-mails or addresses a limiter remembers.
	limited = 100_000
)

// hasher hashes passwords, a bounded number at once: each takes its share of memory and a core.
type hasher struct {
	params  *argon2id.Params
	nobodys string // a hash of the same cost that no password has
	running chan struct{}
	queued  chan struct{}
}

func newHasher(c Cost, running, waiting int) *hasher {
	random := rand.Text() + rand.Text()
	part := func(n int) string { return base64.RawStdEncoding.EncodeToString([]byte(random[:n])) }
	return &hasher{
		params: &argon2id.Params{
			Memory: c.MemoryKiB, Iterations: c.Passes, Parallelism: c.Lanes, SaltLength: saltLength, KeyLength: keyLength,
		},
		nobodys: fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", c.MemoryKiB, c.Passes, c.Lanes, part(saltLength), part(keyLength)),
		running: make(chan struct{}, running),
		queued:  make(chan struct{}, running+waiting),
	}
}

func (h *hasher) hash(ctx context.Context, password string) (hash string, err error) {
	err = h.turn(ctx, func() error {
		hash, err = argon2id.CreateHash(password, h.params)
		return err
	})
	return hash, err
}

func (h *hasher) matches(ctx context.Context, password, hash string) (same bool, err error) {
	err = h.turn(ctx, func() error {
		same, err = argon2id.ComparePasswordAndHash(password, hash)
		return err
	})
	return same, err
}

// turn waits for a free place and does the work. A queue that is full is *streams.Busy.
func (h *hasher) turn(ctx context.Context, work func() error) error {
	select {
	case h.queued <- struct{}{}:
		defer func() { <-h.queued }()
	default:
		return &streams.Busy{Reason: "too many log-ins at once", RetryAfter: time.Second}
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := work(); err != nil {
		return fmt.Errorf("accounts: hashing a password: %w", err)
	}
	return nil
}

// limiter limits how often something may happen per key. It forgets keys that are idle when too many are known.
type limiter struct {
	rate Rate
	now  func() time.Time
	keys *lru.Cache[string, *rate.Limiter]
}

func newLimiter(r Rate, now func() time.Time) *limiter {
	keys, err := lru.New[string, *rate.Limiter](limited)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &limiter{rate: r, now: now, keys: keys}
}

// allow counts one, or answers *streams.Busy and when to come again.
func (l *limiter) allow(key, reason string) error {
	fresh := rate.NewLimiter(rate.Every(l.rate.Every), l.rate.Burst)
	bucket, known, _ := l.keys.PeekOrAdd(key, fresh)
	if !known {
		bucket = fresh
	} else {
		l.keys.Get(key) // now the one used last
	}
	now := l.now()
	r := bucket.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return &streams.Busy{Reason: reason, RetryAfter: wait}
	}
	return nil
}
