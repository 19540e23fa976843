package projections

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// EngineConfig says what an engine runs on.
type EngineConfig struct {
	Pool       *pgxpool.Pool
	Tailer     streams.Tailer
	Schema     *codec.Schema
	Projectors []Projector
	// Era is that of the log. A checkpoint of a later one belongs to the log's copy elsewhere, and is never moved. Zero: any.
	Era int
	// Lanes is in how many lanes a partition is applied. The number of generations that are there is changed when an engine
	// begins and no other one runs. Zero: 2 where the log has one partition, else 1.
	Lanes int
	// Observe is told of every transaction after its commit, by several goroutines at once. It must not block. Nil: nobody.
	Observe func(Applied)
	// Tracer begins a span for a transaction that has commits of traces. Its zero value begins none.
	Tracer tracing.Tracer
	// Session is how long an engine that stands still keeps its partitions from others. Zero: 10 s.
	Session time.Duration
	Log     *slog.Logger
}

// Engine feeds the read models from the log.
type Engine struct {
	cfg   EngineConfig
	stops stops
}

// NewEngine makes an engine; it does nothing before Run.
func NewEngine(cfg EngineConfig) *Engine {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Session = cmp.Or(cfg.Session, 10*time.Second)
	if cfg.Lanes == 0 {
		cfg.Lanes = 1
		if cfg.Tailer.Partitions() == 1 {
			cfg.Lanes = 2
		}
	}
	return &Engine{cfg: cfg}
}

// Run feeds the models of its share of the partitions until ctx ends: engines share them out evenly. Faults of Postgres and
// of the log are logged and tried again. The lock that keeps engines apart saves work, no more: what keeps the
// tables right is the checkpoint.
func (e *Engine) Run(ctx context.Context) error {
	wait := newBackOff()
	for {
		began := time.Now()
		err := e.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			wait.Reset()
		}
		e.cfg.Log.Warn("the projectors lost their database session and begin again", "error", err)
		if !pause(ctx, wait.NextBackOff()) {
			return nil
		}
	}
}

func newBackOff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 2 * time.Second}
}

// pause waits, and reports whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// List is where every projector stands, in all partitions, its stop included, as any process can see it.
func List(ctx context.Context, pool *pgxpool.Pool) ([]State, error) {
	rows, err := pool.Query(ctx, `SELECT c.projection, c.generation, p.generation = c.generation, c.partition, c.lane, c.updated_at,
			coalesce((SELECT e.end_offset FROM log_ends e WHERE e.partition = c.partition ORDER BY e.sampled_at DESC LIMIT 1), -1),
			c.stopped_at, c.stopped_offset, c.stopped_event, c.stopped_reason, `+checkpointFields+`
		FROM projection_checkpoints c JOIN projections p ON p.name = c.projection
		ORDER BY c.projection, c.generation, c.partition, c.lane`)
	if err != nil {
		return nil, fmt.Errorf("projections: list: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (State, error) {
		var s State
		var mark stopMark
		err := row.Scan(append(append([]any{&s.Projection, &s.Generation, &s.Live, &s.Partition, &s.Lane, &s.UpdatedAt, &s.End},
			mark.targets()...), checkpointTargets(&s.Checkpoint)...)...)
		s.UpdatedAt, s.Stopped = s.UpdatedAt.UTC(), mark.stopped(s.Projection, s.Partition)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: list: %w", err)
	}
	return found, nil
}

// stopMark is how a stop is stored.
type stopMark struct {
	at            *time.Time
	offset        *int64
	event, reason *string
}

func (m *stopMark) targets() []any { return []any{&m.at, &m.offset, &m.event, &m.reason} }

func (m *stopMark) stopped(model string, partition int32) *Stopped {
	if m.at == nil {
		return nil
	}
	s := &Stopped{Projection: model, Partition: partition, At: m.at.UTC()}
	if m.offset != nil && m.event != nil && m.reason != nil {
		s.Offset, s.Event, s.Reason = *m.offset, *m.event, *m.reason
	}
	return s
}
