package places

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// silence is how long a process may stand still before the server ends its session, and others take what it held.
const silence = 10 * time.Second

// Hold runs do for this process's share of a policy's partitions until ctx ends; then it waits for all of them. Those who
// hold at the same time share the partitions out evenly: one that joins gets its share from the others, and what one held
// that ends or dies the others take. A lock that is lost, with the database session that holds it, ends what ran under it,
// and all are tried anew. The locks save work, no more: a policy's commands have ids that make a second run harmless.
func (p *Places) Hold(ctx context.Context, policy string, partitions int32, do func(ctx context.Context, partition int32) error) error {
	for {
		err := p.session(ctx, policy, partitions, do)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.log.Warn("a policy lost its database session and begins again", "policy", policy, "error", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// session holds one database session and ends with it.
func (p *Places) session(ctx context.Context, policy string, partitions int32, do func(context.Context, int32) error) (err error) {
	config := p.pool.Config().ConnConfig
	config.RuntimeParams["idle_session_timeout"] = strconv.FormatInt(silence.Milliseconds(), 10)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("places: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		err = errors.Join(err, group.Wait(), conn.Close(context.WithoutCancel(ctx)))
	}()
	s := &share{
		conn: conn, partitions: partitions, do: do, group: group, life: ctx,
		held: map[int32]context.CancelFunc{}, ending: map[int32]bool{}, ended: make(chan int32, partitions),
	}
	// The server keeps the databases of a cluster apart, but not the schemas of one.
	if err := s.query(`SELECT 'cairn policy ' || coalesce(current_schema(), '') || ' ' || $1`, policy).Scan(&s.key); err != nil {
		return err
	}
	if err := s.exec(`SELECT pg_advisory_lock_shared(hashtextextended($1, 0))`, s.key); err != nil {
		return err
	}
	group.Go(s.run)
	return nil
}

// share is what a process holds of a policy's partitions.
type share struct {
	conn       *pgx.Conn
	key        string // of those who hold; each partition's begins with it
	partitions int32
	do         func(context.Context, int32) error
	group      *errgroup.Group
	life       context.Context //nolint:containedctx // the session's

	held   map[int32]context.CancelFunc
	ending map[int32]bool // of held: what is being given up
	ended  chan int32     // what was given up; has room for all
}

func (s *share) run() error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		most, err := s.claim()
		if err != nil {
			return err
		}
		s.giveUp(most)
		select {
		case <-s.life.Done():
			return s.life.Err()
		case <-tick.C:
		case partition := <-s.ended:
			delete(s.held, partition)
			delete(s.ending, partition)
			if err := s.exec(`SELECT pg_advisory_unlock(hashtextextended($1, 0))`, s.name(partition)); err != nil {
				return err
			}
		}
	}
}

// claim takes what is free of this process's share, in one query, which also shows that the session lives. It answers how
// many partitions that share is: as many as if each of those who hold the shared lock had the same, rounded up.
func (s *share) claim() (most int, err error) {
	var others []int32
	for partition := range s.partitions {
		if s.held[partition] == nil {
			others = append(others, partition)
		}
	}
	var got []int32
	err = s.query(`WITH share AS MATERIALIZED (
			SELECT ($2 + greatest(count(*), 1) - 1) / greatest(count(*), 1) AS most FROM pg_locks
			 WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			   AND objsubid = 1 AND mode = 'ShareLock' AND granted
			   AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0))
		SELECT most, array(SELECT p FROM unnest($3::int[]) p WHERE pg_try_advisory_lock(hashtextextended($1 || '/' || p, 0))
			LIMIT (SELECT greatest(0, most - $4) FROM share)) FROM share`, s.key, int64(s.partitions), others, int64(len(s.held))).Scan(&most, &got)
	if err != nil {
		return 0, err
	}
	for _, partition := range got {
		s.begin(partition)
	}
	return most, nil
}

func (s *share) begin(partition int32) {
	ctx, cancel := context.WithCancel(s.life)
	s.held[partition] = cancel
	s.group.Go(func() error {
		defer cancel()
		err := s.do(ctx, partition)
		if ctx.Err() == nil || s.life.Err() != nil {
			return cmp.Or(err, errors.New("places: it ended by itself"))
		}
		s.ended <- partition // it was given up, and its place is kept
		return nil
	})
}

// giveUp ends what is more than so many partitions: what is in hand there comes again, to who takes them.
func (s *share) giveUp(most int) {
	surplus := len(s.held) - len(s.ending) - most
	for partition := s.partitions - 1; partition >= 0 && surplus > 0; partition-- {
		if end := s.held[partition]; end != nil && !s.ending[partition] {
			s.ending[partition] = true
			surplus--
			end()
		}
	}
}

func (s *share) name(partition int32) string { return fmt.Sprint(s.key, "/", partition) }

// query and exec ask within half of what the server waits for: a half-open connection says nothing, and the locks that it
// seems to hold may be another's by now.
func (s *share) query(sql string, args ...any) row {
	ctx, cancel := context.WithTimeout(s.life, silence/2)
	return row{s.conn.QueryRow(ctx, sql, args...), cancel}
}

func (s *share) exec(sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(s.life, silence/2)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("places: %w", err)
	}
	return nil
}

// row ends its query's time when it is read.
type row struct {
	pgx.Row
	cancel context.CancelFunc
}

// Scan implements pgx.Row.
func (r row) Scan(into ...any) error {
	defer r.cancel()
	if err := r.Row.Scan(into...); err != nil {
		return fmt.Errorf("places: %w", err)
	}
	return nil
}
