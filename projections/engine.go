package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// EngineConfig says what an engine runs on.
type EngineConfig struct {
	Pool       *pgxpool.Pool
	Tailer     streams.Tailer
	Schema     *codec.Schema
	Projectors []Projector
	// Era is that of the log. A checkpoint of a later one belongs to the log's copy elsewhere, and is never moved. Zero: any.
	Era int
	// Session is how long an engine that stands still keeps its partitions from others. Zero: 10 s.
	Session time.Duration
	Log     *slog.Logger
}

// Engine feeds the read models from the log.
type Engine struct{ cfg EngineConfig }

// NewEngine makes an engine; it does nothing before Run.
func NewEngine(cfg EngineConfig) *Engine {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Session = cmp.Or(cfg.Session, 10*time.Second)
	return &Engine{cfg: cfg}
}

// lockSpace is the first half of the advisory locks by which engines share out partitions: "cprj".
const lockSpace = 0x6370726a

// Run feeds the models of every partition that no other engine feeds, until ctx ends. Faults of Postgres and
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

// session holds one database session, whose locks say which partitions are ours, and ends with it.
func (e *Engine) session(ctx context.Context) (err error) {
	config := e.cfg.Pool.Config().ConnConfig
	// A process that stands still (stopped, swapped out, its machine paused) must not keep its partitions from others:
	// the server ends a session of which nothing is heard, and its locks with it.
	config.RuntimeParams["idle_session_timeout"] = strconv.Itoa(int(e.cfg.Session.Milliseconds()))
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	if err := Ensure(ctx, e.cfg.Pool, e.cfg.Projectors, 1); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		err = errors.Join(err, group.Wait())
		err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}()
	held := map[int32]bool{}
	group.Go(func() error {
		tick := time.NewTicker(min(time.Second, e.cfg.Session/4))
		defer tick.Stop()
		for {
			if err := e.claim(ctx, conn, group, held); err != nil {
				return err
			}
			e.sampleEnds(ctx, held)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
	return nil
}

// claim takes the partitions that are free, and proves that the session lives: a half-open connection says nothing, and
// the locks it seems to hold may be another's by now.
func (e *Engine) claim(life context.Context, conn *pgx.Conn, group *errgroup.Group, held map[int32]bool) error {
	ctx, cancel := context.WithTimeout(life, e.cfg.Session/2)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	for partition := range e.cfg.Tailer.Partitions() {
		if held[partition] {
			continue
		}
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockSpace, partition).Scan(&got); err != nil {
			return fmt.Errorf("projections: claim partition %d: %w", partition, err)
		}
		if got {
			held[partition] = true
			group.Go(func() error { return e.feed(life, partition) })
		}
	}
	return nil
}

// sampleEnds notes where the log ends, by which effects tell whether a model is caught up.
func (e *Engine) sampleEnds(ctx context.Context, held map[int32]bool) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Session/2)
	defer cancel()
	for partition := range held {
		end, err := e.cfg.Tailer.End(ctx, partition)
		if err == nil {
			_, err = e.cfg.Pool.Exec(ctx, `WITH old AS (DELETE FROM log_ends WHERE partition = $1
					AND (sampled_at < cairn_now() - interval '1 minute' OR sampled_at > cairn_now() + interval '1 minute'))
				INSERT INTO log_ends (partition, sampled_at, end_offset) VALUES ($1, cairn_now(), $2) ON CONFLICT DO NOTHING`, partition, end)
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("the end of the log is not known", "partition", partition, "error", err)
		}
	}
}

// feed brings the models of a partition along until ctx ends.
func (e *Engine) feed(ctx context.Context, partition int32) error {
	wait := newBackOff()
	for {
		seats, err := loadSeats(ctx, e.cfg.Pool, e.cfg.Projectors, partition)
		if err == nil {
			err = e.checkEra(seats)
		}
		if err == nil {
			began := seats[0].checkpoint.Next
			r := reader{engine: e, partition: partition}
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return r.run(ctx, seats) }) // without an error: every projector has stopped
			group.Go(func() error { return e.resumed(ctx, partition) })
			err = group.Wait()
			if seats[0].checkpoint.Next != began {
				wait.Reset()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errResumed) {
			e.cfg.Log.Info("projectors that had stopped are tried again", "partition", partition)
			continue
		}
		if !errors.Is(err, errConflict) {
			e.cfg.Log.Warn("a partition's projectors begin again at their checkpoints", "partition", partition, "error", err)
		}
		if !pause(ctx, wait.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// errResumed says that somebody took the mark from a projector that had stopped.
var errResumed = errors.New("projections: a stopped projector is to go on")

// resumed answers errResumed when fewer projectors of the partition are marked as stopped than before.
func (e *Engine) resumed(ctx context.Context, partition int32) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for before := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var stopped int
		err := e.cfg.Pool.QueryRow(ctx, `SELECT count(*) FROM projection_checkpoints WHERE partition = $1 AND stopped_at IS NOT NULL`, partition).Scan(&stopped)
		switch {
		case err != nil: // the database is away: who writes says so
		case stopped < before:
			return errResumed
		default:
			before = stopped
		}
	}
}

// Resume takes the mark from the projectors that stopped at an offset, so that they are tried again, and answers their names.
func Resume(ctx context.Context, pool *pgxpool.Pool, partition int32, offset int64) ([]string, error) {
	rows, err := pool.Query(ctx, `UPDATE projection_checkpoints
		   SET stopped_at = NULL, stopped_offset = NULL, stopped_event = NULL, stopped_reason = NULL
		 WHERE partition = $1 AND stopped_offset = $2 RETURNING projection`, partition, offset)
	if err != nil {
		return nil, fmt.Errorf("projections: resume: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("projections: resume: %w", err)
	}
	return names, nil
}

// checkEra refuses checkpoints of a later era: the log was migrated while this process read the old one.
func (e *Engine) checkEra(seats []*seat) error {
	for _, s := range seats {
		if era := s.checkpoint.Acceptance.Era; e.cfg.Era > 0 && era > e.cfg.Era {
			return fmt.Errorf("projections: %s is in era %d and this process reads the log of era %d: the log was migrated, end this process", s.projector.Name(), era, e.cfg.Era)
		}
	}
	return nil
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
