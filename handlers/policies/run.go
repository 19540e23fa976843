package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Config is what the policies run on. Numbers that are zero have the default that stands beside them.
type Config struct {
	Policies []Policy
	Asker    streams.Asker
	Tailer   streams.Tailer
	Schema   *codec.Schema
	Places   Places
	Begins   Begins
	Era      int // of the log
	// Parked is where what can't be handled is kept; Run closes it.
	Parked      message.Publisher
	ParkedTopic string
	Log         *slog.Logger
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
	Tracer  tracing.Tracer // its zero value begins no spans

	Tries       int           // of an event that fails, before it is parked: 5
	FirstPause  time.Duration // before the second try, twice that before the third: 100 ms
	MaxPause    time.Duration // 5 s
	Within      time.Duration // one try: 30 s
	KeepEvery   time.Duration // how often places are stored: 1 s
	CloseWithin time.Duration // what is in hand may take when Run ends: 5 s
}

func (c *Config) complete() error {
	var wrong []error
	for _, missing := range []struct {
		what string
		is   bool
	}{
		{"Asker", c.Asker == nil},
		{"Tailer", c.Tailer == nil},
		{"Schema", c.Schema == nil},
		{"Places", c.Places == nil},
		{"Begins", c.Begins == nil},
		{"Parked", c.Parked == nil},
		{"ParkedTopic", c.ParkedTopic == ""},
	} {
		if missing.is {
			wrong = append(wrong, fmt.Errorf("policies: no %s", missing.what))
		}
	}
	c.Era = cmp.Or(c.Era, 1)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Tries = cmp.Or(c.Tries, 5)
	c.FirstPause = cmp.Or(c.FirstPause, 100*time.Millisecond)
	c.MaxPause = cmp.Or(c.MaxPause, 5*time.Second)
	c.Within = cmp.Or(c.Within, 30*time.Second)
	c.KeepEvery = cmp.Or(c.KeepEvery, time.Second)
	c.CloseWithin = cmp.Or(c.CloseWithin, 5*time.Second)
	return errors.Join(wrong...)
}

// Runner runs the policies of one process.
type Runner struct {
	config  Config
	metrics *metrics
}

// New makes a runner, which does nothing before Run.
func New(config Config) (*Runner, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Runner{config: config, metrics: newMetrics(config.Metrics, config.Policies)}, nil
}

// Run handles the events of the partitions that this process has until ctx ends. Nothing is parked because it ends.
func (r *Runner) Run(ctx context.Context) error {
	defer r.config.Parked.Close() //nolint:errcheck // what it was given it has published
	log := watermill.NewSlogLoggerWithLevelMapping(r.config.Log, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace, slog.LevelError: slog.LevelWarn,
	})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.config.CloseWithin}, log)
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	poison, err := middleware.PoisonQueueWithFilter(r.config.Parked, r.config.ParkedTopic, r.parks)
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	// The outermost first. The retry is inside the poison queue, so that only what has failed for good comes there;
	// each try has its own time, and a panic counts as a failure.
	router.AddMiddleware(
		poison,
		whileFed,
		middleware.Retry{
			MaxRetries: r.config.Tries - 1, InitialInterval: r.config.FirstPause, MaxInterval: r.config.MaxPause, Multiplier: 2,
			RandomizationFactor: 0.5, ResetContextOnRetry: true, Logger: log,
			ShouldRetry: func(p middleware.RetryParams) bool { return !passing(p.Err) },
		}.Middleware,
		r.metrics.counted,
		r.within,
		middleware.Recoverer,
	)
	var sources []*source
	for _, p := range r.config.Policies {
		handler := &reactor{policy: p, schema: r.config.Schema, asker: r.config.Asker, again: refusals{every: 6 * r.config.MaxPause}}
		source := newSource(r.config, p)
		sources = append(sources, source)
		router.AddConsumerHandler(p.Name, "log", source, func(m *message.Message) error {
			recorded, err := recordedOf(m.Payload)
			if err != nil {
				return err
			}
			return r.traced(m.Context(), p.Name, recorded, handler.handle)
		})
	}
	err = router.Run(ctx)
	for _, s := range sources {
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	return ctx.Err()
}

// parks says which failures are parked, and raises the alarm. What says nothing about the event, the end of the process
// above all, is not among them: the event comes again.
func (r *Runner) parks(err error) bool {
	if passing(err) {
		return false
	}
	r.metrics.parked.Inc()
	r.config.Log.Error("a policy can't handle an event: it is parked (see `cairn parked list`)", "error", err)
	return true
}

// Replay does once more what a policy makes of a parked event, and answers what is wrong with it still.
func Replay(ctx context.Context, policies []Policy, schema *codec.Schema, asker streams.Asker, parked kafka.ParkedItem) error {
	for _, p := range policies {
		if p.Name != parked.Policy {
			continue
		}
		recorded, err := recordedOf(parked.Value)
		if err != nil {
			return err
		}
		return (&reactor{policy: p, schema: schema, asker: asker}).handle(ctx, recorded)
	}
	return fmt.Errorf("this program has no policy %q", parked.Policy)
}
