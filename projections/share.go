package projections

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// The first halves of the advisory locks by which engines share out partitions ("cprj"), and by which they are counted
// ("cpre").
const (
	lockSpace   = 0x6370726a
	memberSpace = 0x63707265
)

// session is one database session, whose locks say which partitions are ours.
type session struct {
	engine *Engine
	conn   *pgx.Conn
	group  *errgroup.Group
	life   context.Context // of the session's goroutines
	held   map[int32]*holding
}

// holding is a partition that is ours.
type holding struct {
	end   context.CancelFunc
	ended chan struct{}
	again chan struct{} // says that the registry has changed
	// by is the registry by which it is fed. It is compared with what there is, and not one look with the next: a partition that
	// begins again between two looks, for whatever reason, may have seen a change that is undone by the next one.
	by atomic.Pointer[string]
}

// session holds one database session and ends with it.
func (e *Engine) session(ctx context.Context) (err error) {
	config := e.cfg.Pool.Config().ConnConfig
	// A process that stands still (stopped, swapped out, its machine paused) must not keep its partitions from others:
	// the server ends a session of which nothing is heard, and its locks with it.
	config.RuntimeParams["idle_session_timeout"] = strconv.Itoa(int(e.cfg.Session.Milliseconds()))
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	if err := Ensure(ctx, e.cfg.Pool, e.cfg.Projectors, e.cfg.Lanes); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		err = errors.Join(err, group.Wait())
		err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}()
	s := &session{engine: e, conn: conn, group: group, life: ctx, held: map[int32]*holding{}}
	group.Go(func() error {
		if err := s.join(); err != nil {
			return err
		}
		tick := time.NewTicker(min(time.Second, e.cfg.Session/4))
		defer tick.Stop()
		look := time.NewTicker(min(500*time.Millisecond, e.cfg.Session/4))
		defer look.Stop()
		for {
			if err := s.claim(); err != nil {
				return err
			}
			e.sampleEnds(ctx, s.held)
			for ticked := false; !ticked; {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-look.C:
					s.look()
				case <-tick.C:
					ticked = true
				}
			}
		}
	})
	return nil
}

// join counts this engine as one of those that share, and changes the number of lanes where it is alone.
func (s *session) join() error {
	ctx, cancel := context.WithTimeout(s.life, s.engine.cfg.Session/2)
	defer cancel()
	if _, err := s.conn.Exec(ctx, `SELECT pg_advisory_lock($1, pg_backend_pid())`, memberSpace); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	return s.relane()
}

// share is how many partitions each engine holds at most, so that all are held and none holds much more than another.
func (s *session) share(ctx context.Context) (int, error) {
	var engines int
	err := s.conn.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = $1 AND objsubid = 2 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, memberSpace).Scan(&engines)
	if err != nil {
		return 0, fmt.Errorf("projections: count the engines: %w", err)
	}
	n, engines := int(s.engine.cfg.Tailer.Partitions()), max(1, engines)
	return (n + engines - 1) / engines, nil
}

// claim takes the partitions that are free, up to its share, and lets go of those beyond: another engine has come. It proves
// that the session lives: a half-open connection says nothing, and the locks it seems to hold may be another's by now.
func (s *session) claim() error {
	ctx, cancel := context.WithTimeout(s.life, s.engine.cfg.Session/2)
	defer cancel()
	share, err := s.share(ctx)
	if err != nil {
		return err
	}
	for partition, h := range s.held {
		if len(s.held) <= share {
			break
		}
		if err := s.release(ctx, partition, h); err != nil {
			return err
		}
	}
	for partition := range s.engine.cfg.Tailer.Partitions() {
		if s.held[partition] != nil || len(s.held) >= share {
			continue
		}
		got, err := s.lock(ctx, partition)
		if err != nil {
			return err
		}
		if got {
			s.hold(partition)
		}
	}
	return nil
}

func (s *session) lock(ctx context.Context, partition int32) (got bool, err error) {
	if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockSpace, partition).Scan(&got); err != nil {
		return false, fmt.Errorf("projections: claim partition %d: %w", partition, err)
	}
	return got, nil
}

func (s *session) unlock(ctx context.Context, partition int32) error {
	if _, err := s.conn.Exec(ctx, `SELECT pg_advisory_unlock($1, $2)`, lockSpace, partition); err != nil {
		return fmt.Errorf("projections: leave partition %d: %w", partition, err)
	}
	return nil
}

func (s *session) hold(partition int32) {
	ctx, end := context.WithCancel(s.life)
	h := &holding{end: end, ended: make(chan struct{}), again: make(chan struct{}, 1)}
	s.held[partition] = h
	s.group.Go(func() error {
		defer close(h.ended)
		err := s.engine.feed(ctx, partition, h)
		if ctx.Err() != nil && s.life.Err() == nil {
			return nil // released
		}
		return err
	})
}

// release lets go of a partition once nothing of it is under way.
func (s *session) release(ctx context.Context, partition int32, h *holding) error {
	h.end()
	select {
	case <-h.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	delete(s.held, partition)
	return s.unlock(ctx, partition)
}
