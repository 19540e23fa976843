package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Accounts are who may come in (handlers/accounts).
type Accounts interface {
	Register(ctx context.Context, email, password string) (accounts.Account, accounts.Tokens, error)
	Login(ctx context.Context, email, password, remote string) (accounts.Account, accounts.Tokens, error)
	Refresh(ctx context.Context, refreshToken string) (accounts.Tokens, error)
	Logout(ctx context.Context, refreshToken string) error
	Verify(accessToken string) (accounts.Principal, error)
	Ticket(ctx context.Context, p accounts.Principal) (accounts.Ticket, error)
	Redeem(ctx context.Context, ticket string) (accounts.Principal, error)
	Me(ctx context.Context, p accounts.Principal) (accounts.Account, error)
	Erase(ctx context.Context, p accounts.Principal) error
}

// Waiter waits until a read model has a position (projections.Waiter).
type Waiter interface {
	Wait(ctx context.Context, p streams.Position, models ...string) error
	Changed(model string) <-chan struct{}
}

// Follower tells a run as it happens (live.Gateway).
type Follower interface {
	Follow(ctx context.Context, scope domain.Scope, thread, run string, from live.FollowFrom) <-chan live.Output
}

// Embedder makes vectors of texts (handlers/effects/embed).
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
}

// Check is one thing that readiness looks at.
type Check struct {
	Name   string
	Detail string
	Err    error
}

// Config is what the interface stands on. What has no comment is needed.
type Config struct {
	Accounts Accounts
	Asker    streams.Asker
	Events   *events.Model
	Threads  *threads.Model
	Runs     *runs.Model
	Devices  *devices.Model
	Requests *requests.Model
	Effects  *openeffects.Model
	Work     *work.Tables
	Waiter   Waiter
	Schema   *codec.Schema
	Keys     streams.Keys
	Gateway  Follower
	Fanout   Subscriber
	Embedder Embedder

	TrustedProxies []string // addresses and prefixes whose X-Forwarded-For counts; empty: nobody's
	Origins        []string // whose pages may call, such as https://app.example; empty: no page's

	// CatchUp is how many events behind a reader of events may be to go on from where it is. Zero: any number.
	CatchUp uint64

	PublicURL string                        // such as https://cairn.example, in front of problem types; empty: they are relative
	Readiness func(context.Context) []Check // ends by itself; asked a few times a second at most. nil: always ready
	Limits    Limits                        // zero: the defaults
	Now       func() time.Time              // nil: time.Now
	Log       *slog.Logger                  // nil: nothing is logged
	// Stopping is closed when the process begins to stop: streams tell their listeners to come again. Nil: it never does.
	Stopping <-chan struct{}
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
}

type server struct {
	Config
	kinds    table
	ready    *readiness
	commands *limiter
	sessions *limiter
	streams  *openStreams
}

// New is the handler of every path below /api/v1 but the sockets, and of /healthz, /readyz and /problems.
func New(c Config) (http.Handler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.filled()
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Readiness == nil {
		c.Readiness = func(context.Context) []Check { return nil }
	}
	s := &server{Config: c, kinds: newTable(), ready: &readiness{look: c.Readiness, now: c.Now}, streams: newOpenStreams(c.Limits.Streams, c.Metrics)}
	var err1, err2, err3 error
	s.commands, err1 = newLimiter("commands", c.Limits.Commands, c.Limits.CommandBurst, c.Limits.Keys, c.Now)
	s.sessions, err2 = newLimiter("sessions", c.Limits.Sessions, c.Limits.SessionBurst, c.Limits.Keys, c.Now)
	e := echo.New()
	e.HTTPErrorHandler = s.onError
	e.IPExtractor, err3 = callers(c.TrustedProxies)
	page, err4 := pages(c.Origins)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	e.Use(newHTTPMetrics(c.Metrics).measured, s.identify, s.access, middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true, LogErrorFunc: s.panicked}))
	if page != nil {
		e.Use(page)
	}
	if err := s.routes(e); err != nil {
		return nil, err
	}
	return e, nil
}

func (c Config) validate() error {
	missing := map[string]bool{
		"Accounts": c.Accounts == nil, "Asker": c.Asker == nil, "Events": c.Events == nil, "Threads": c.Threads == nil, "Runs": c.Runs == nil,
		"Devices": c.Devices == nil, "Requests": c.Requests == nil, "Effects": c.Effects == nil, "Work": c.Work == nil, "Waiter": c.Waiter == nil, "Schema": c.Schema == nil,
		"Keys": c.Keys == nil, "Gateway": c.Gateway == nil, "Fanout": c.Fanout == nil, "Embedder": c.Embedder == nil,
	}
	var errs []error
	for name, is := range missing {
		if is {
			errs = append(errs, fmt.Errorf("rest: no %s", name))
		}
	}
	return errors.Join(errs...)
}
