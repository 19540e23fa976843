package rest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"
)

// Limits bound what one caller may do. The zero value has the defaults.
type Limits struct {
	Commands      float64       // a user's commands a second; 0: 20
	CommandBurst  int           // at once; 0: 40
	Sessions      float64       // registrations, log-ins and refreshes a second from one address; 0: 1
	SessionBurst  int           // at once; 0: 30
	Keys          int           // users and addresses remembered; 0: 10,000
	ChatWait      time.Duration // how long POST /chat waits for the answer as JSON; 0: 2 min
	StreamingPing time.Duration // between comments on an event stream; 0: 15 s
	// StreamingWrite is how long a listener may take for what is written to its stream; 0: 10 s.
	StreamingWrite time.Duration
	// StreamingRetry is within what time listeners come again that lost their stream, spread evenly; 0: 5 s.
	StreamingRetry time.Duration
	Streams        int // that a user may follow at once; 0: 100
}

func (l Limits) filled() Limits {
	l.Commands, l.CommandBurst = cmp.Or(l.Commands, 20), cmp.Or(l.CommandBurst, 40)
	l.Sessions, l.SessionBurst = cmp.Or(l.Sessions, 1), cmp.Or(l.SessionBurst, 30)
	l.Keys = cmp.Or(l.Keys, 10_000)
	l.ChatWait = cmp.Or(l.ChatWait, 2*time.Minute)
	l.StreamingPing = cmp.Or(l.StreamingPing, 15*time.Second)
	l.StreamingWrite, l.StreamingRetry = cmp.Or(l.StreamingWrite, 10*time.Second), cmp.Or(l.StreamingRetry, 5*time.Second)
	l.Streams = cmp.Or(l.Streams, 100)
	return l
}

// limiter is a token bucket per key; the least recently used are forgotten.
type limiter struct {
	name  string
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets *lru.Cache[string, *rate.Limiter]
}

func newLimiter(name string, perSecond float64, burst, keys int, now func() time.Time) (*limiter, error) {
	buckets, err := lru.New[string, *rate.Limiter](keys)
	if err != nil {
		return nil, fmt.Errorf("rest: limits: %w", err)
	}
	return &limiter{name: name, limit: rate.Limit(perSecond), burst: burst, now: now, buckets: buckets}, nil
}

// take takes one token; without one it answers how long until there is one.
func (l *limiter) take(key string) (left int, wait time.Duration) {
	l.mu.Lock()
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = rate.NewLimiter(l.limit, l.burst)
		l.buckets.Add(key, bucket)
	}
	l.mu.Unlock()
	now := l.now()
	if bucket.AllowN(now, 1) {
		return int(bucket.TokensAt(now)), 0
	}
	missing := 1 - bucket.TokensAt(now)
	return 0, time.Duration(missing / float64(l.limit) * float64(time.Second))
}

// admit counts the request against key, and says so in the headers of the IETF draft on rate limits.
func (l *limiter) admit(c echo.Context, key string) error {
	left, wait := l.take(key)
	header := c.Response().Header()
	window := int(math.Ceil(float64(l.burst) / float64(l.limit)))
	header.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", l.name, l.burst, window))
	header.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", l.name, left, int(math.Ceil(wait.Seconds()))))
	if wait > 0 {
		return &problem{Code: "rate_limited", Detail: http.StatusText(http.StatusTooManyRequests), retryAfter: max(wait, time.Second)}
	}
	return nil
}
