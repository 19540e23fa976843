package projections_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// tally is a read model of a few rows, each with the number of the generation that it stands in.
type tally struct {
	name     string
	revision int
}

func (t tally) Name() string  { return t.name }
func (t tally) Revision() int { return t.revision }
func (t tally) Apply(context.Context, pgx.Tx, projections.Batch) error {
	return errors.New("fed by hand")
}

func (t tally) Shape() string {
	return `
-- changed: made_by
-- tables
CREATE TABLE {` + t.name + `} (id integer NOT NULL, n bigint NOT NULL, made_by integer NOT NULL, note text);
-- key
ALTER TABLE {` + t.name + `} ADD PRIMARY KEY (id);
-- indexes
CREATE INDEX {` + t.name + `}_by_n ON {` + t.name + `} (n);`
}

const tallied = 20 // rows

// begin makes the first generation and fills it.
func (t tally) begin(ctx context.Context, pool *pgxpool.Pool) error {
	if err := projections.Ensure(ctx, pool, []projections.Projector{t}, 1); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO `+t.name+`_1 SELECT i, 0, 1 FROM generate_series(1, $1) AS i`, tallied)
		batch.Queue(place, t.name, 1, 0)
		return tx.SendBatch(ctx, batch).Close()
	})
}

const place = `INSERT INTO projection_checkpoints (projection, generation, partition, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
	VALUES ($1, $2, 0, $3, 1, 1, 'w', false, 0, -1, cairn_now())`

// beside makes the next generation, fills it from the live one, and has it fed from the same place on.
func (t tally) beside(ctx context.Context, pool *pgxpool.Pool) (projections.Generation, error) {
	next := t
	next.revision++
	g, err := projections.CreateGeneration(ctx, pool, next)
	if err != nil {
		return g, err
	}
	if err := projections.BuildIndexes(ctx, pool, g); err != nil {
		return g, err
	}
	return g, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		live, err := projections.LiveGeneration(ctx, tx, t.name)
		if err != nil {
			return err
		}
		var at int64
		if err := tx.QueryRow(ctx, `SELECT next_offset FROM projection_checkpoints WHERE projection = $1 AND generation = $2 FOR UPDATE`, t.name, live.Number).Scan(&at); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(fmt.Sprintf(`INSERT INTO %s SELECT id, n, %d FROM %s`, g.Table(t.name), g.Number, live.Table(t.name)))
		batch.Queue(place, t.name, g.Number, at)
		return tx.SendBatch(ctx, batch).Close()
	})
}

// feed moves all generations by one in a transaction, checkpoints first, and answers how far they are.
func (t tally) feed(ctx context.Context, pool *pgxpool.Pool) (at int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// Not in the UPDATE: one that waits for whoever begins a generation would not see that.
		if _, err := tx.Exec(ctx, `SELECT FROM projection_checkpoints WHERE projection = $1 FOR UPDATE`, t.name); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `UPDATE projection_checkpoints SET next_offset = next_offset + 1 WHERE projection = $1 RETURNING generation, next_offset`, t.name)
		if err != nil {
			return err
		}
		var g int
		batch := &pgx.Batch{}
		if _, err := pgx.ForEachRow(rows, []any{&g, &at}, func() error {
			batch.Queue(fmt.Sprintf(`UPDATE %s_%d SET n = n + 1`, t.name, g))
			return nil
		}); err != nil {
			return err
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	return at, err
}

// TestReadsAtSwapsNeitherFailNorMix: whatever is swapped, rolled back, made and dropped meanwhile, every read of one model
// sees one generation whole, and that the live one of its moment, with everything that was there when it began; and a
// snapshot of two models sees both at one moment.
func TestReadsAtSwapsNeitherFailNorMix(t *testing.T) {
	pool := pgtest.Read(t)
	models := []tally{{"left", 1}, {"right", 1}}
	for _, m := range models {
		if err := m.begin(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	over := func(err error) error {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	group, life := errgroup.WithContext(ctx)
	var fed [2]atomic.Int64
	var reads, swaps atomic.Int64
	for i, m := range models {
		group.Go(func() error {
			for life.Err() == nil {
				at, err := m.feed(life, pool)
				if err != nil {
					return over(fmt.Errorf("feed: %w", err))
				}
				fed[i].Store(at)
			}
			return nil
		})
		group.Go(func() error {
			for life.Err() == nil {
				if err := m.turn(life, pool); err != nil {
					return over(err)
				}
				swaps.Add(3)
			}
			return nil
		})
		group.Go(func() error {
			db := projections.NewDB(pool)
			for life.Err() == nil {
				least := fed[i].Load()
				seen, err := m.read(life, db)
				if err != nil {
					return over(fmt.Errorf("a read of %s failed: %w", m.name, err))
				}
				if err := seen.check(least); err != nil {
					return fmt.Errorf("a read of %s: %w", m.name, err)
				}
				reads.Add(1)
			}
			return nil
		})
	}
	group.Go(func() error {
		db := projections.NewDB(pool)
		for life.Err() == nil {
			least := []int64{fed[0].Load(), fed[1].Load()}
			err := db.Snapshot(life, []string{"left", "right"}, func(ctx context.Context, tx *projections.Tx) error {
				for i, m := range models {
					seen, err := m.scan(tx.Query(ctx, tx.Expand(m.name, m.sql())))
					if err != nil {
						return err
					}
					if err := seen.check(least[i]); err != nil {
						return fmt.Errorf("%s: %w", m.name, err)
					}
				}
				return nil
			})
			if err != nil {
				return over(fmt.Errorf("a snapshot failed: %w", err))
			}
			reads.Add(1)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d reads at %d swaps and rollbacks, %d and %d batches", reads.Load(), swaps.Load(), fed[0].Load(), fed[1].Load())
	if reads.Load() < 50 || swaps.Load() < 6 {
		t.Fatal("too little happened to say anything")
	}
}

// turn lets the next generation take the place of the live one, with a rollback between, and drops that one.
func (t tally) turn(ctx context.Context, pool *pgxpool.Pool) error {
	old, err := projections.LiveGeneration(ctx, pool, t.name)
	if err != nil {
		return err
	}
	t.revision = old.Revision
	g, err := t.beside(ctx, pool)
	if err != nil {
		return fmt.Errorf("next: %w", err)
	}
	v, err := projections.Verify(ctx, pool, t.name)
	if err != nil || !v.Clean() {
		return errors.Join(err, v.Err())
	}
	for _, step := range []func() (projections.Exchanged, error){
		func() (projections.Exchanged, error) {
			return projections.Swap(ctx, pool, t.name, projections.SwapOptions{})
		},
		func() (projections.Exchanged, error) { return projections.Rollback(ctx, pool, t.name) },
		func() (projections.Exchanged, error) {
			return projections.Swap(ctx, pool, t.name, projections.SwapOptions{Generation: g.Number})
		},
	} {
		if _, err := step(); err != nil {
			return err
		}
	}
	return projections.Drop(ctx, pool, t.name, old.Number)
}

// seen is what a read saw.
type seen struct {
	rows              int
	madeBy, live      map[int]bool
	smallest, largest int64
}

func (t tally) sql() string {
	return `SELECT n, made_by, cairn_live('` + t.name + `') FROM {` + t.name + `} WHERE {live}`
}

func (t tally) read(ctx context.Context, db *projections.DB) (seen, error) {
	rows, err := projections.Rows(ctx, db, t.name, t.sql(), func(row pgx.CollectableRow) (r [3]int64, err error) {
		err = row.Scan(&r[0], &r[1], &r[2])
		return r, err
	})
	return sum(rows), err
}

func (t tally) scan(result pgx.Rows, err error) (seen, error) {
	if err != nil {
		return seen{}, err
	}
	rows, err := pgx.CollectRows(result, func(row pgx.CollectableRow) (r [3]int64, err error) {
		err = row.Scan(&r[0], &r[1], &r[2])
		return r, err
	})
	return sum(rows), err
}

func sum(rows [][3]int64) seen {
	s := seen{rows: len(rows), madeBy: map[int]bool{}, live: map[int]bool{}}
	for i, r := range rows {
		if i == 0 {
			s.smallest, s.largest = r[0], r[0]
		}
		s.smallest, s.largest = min(s.smallest, r[0]), max(s.largest, r[0])
		s.madeBy[int(r[1])], s.live[int(r[2])] = true, true
	}
	return s
}

func (s seen) check(least int64) error {
	for g := range s.madeBy {
		if !s.live[g] {
			return fmt.Errorf("it saw generation %d while %v was the live one", g, s.live)
		}
	}
	if s.rows != tallied || len(s.madeBy) != 1 || len(s.live) != 1 || s.smallest != s.largest {
		return fmt.Errorf("it mixed: %+v", s)
	}
	if s.smallest < least {
		return fmt.Errorf("it saw %d, and %d was there before it began", s.smallest, least)
	}
	return nil
}
