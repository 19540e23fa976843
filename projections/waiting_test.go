package projections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// TestAPositionBeyondTheLogIsUnknown: soon, and not only after the patience has ended.
func TestAPositionBeyondTheLogIsUnknown(t *testing.T) {
	log := logtest.New(2)
	pool := pgtest.Read(t)
	start(t, pool, log, models(pool))
	w := projections.NewWaiter(pool, projections.WithLog(log, 1), projections.WithPatience(time.Minute))
	run(t, w.Run)
	p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Opened{})...))
	if err := w.Wait(t.Context(), p, tables...); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*streams.Position){
		"an offset that is not there yet":        func(p *streams.Position) { p.Offset, p.Position = p.Offset+7, p.Position+7 },
		"a partition that is not there":          func(p *streams.Position) { p.Partition = 9 },
		"an era that has not begun":              func(p *streams.Position) { p.Era = 2 },
		"a negative partition":                   func(p *streams.Position) { p.Partition = -1 },
		"the end of the log, which nothing took": func(p *streams.Position) { p.Offset, p.Position = p.Offset+1, p.Position+1 },
	} {
		t.Run(name, func(t *testing.T) {
			unknown := p
			change(&unknown)
			var said *projections.Unknown
			if err := w.Wait(t.Context(), unknown, "threads"); !errors.As(err, &said) || !errors.Is(err, projections.ErrUnknown) {
				t.Fatalf("waiting answered %v, wanted ErrUnknown", err)
			}
		})
	}
}

// TestAPositionOfAnOlderEraThatTheLogNeverHadIsUnknown: the copy of a log has all positions of the one before.
func TestAPositionOfAnOlderEraThatTheLogNeverHadIsUnknown(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	start(t, pool, log, models(pool))
	w := projections.NewWaiter(pool, projections.WithLog(log, 1), projections.WithPatience(time.Minute))
	run(t, w.Run)
	p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Opened{})...))
	if err := w.Wait(t.Context(), p, tables...); err != nil {
		t.Fatal(err)
	}
	old := streams.Position{Scope: scope, Position: p.Position, Era: 0, Partition: 9, Offset: 1 << 40}
	if err := w.Wait(t.Context(), old, "threads", "runs"); err != nil {
		t.Fatalf("a position of an older era that the log has: %v", err)
	}
	old.Position++
	if err := w.Wait(t.Context(), old, "threads"); !errors.Is(err, projections.ErrUnknown) {
		t.Fatalf("waiting answered %v, wanted ErrUnknown", err)
	}
}

// TestAPausedModelSaysSoAtOnce: also to those that wait already, and with how far it is.
func TestAPausedModelSaysSoAtOnce(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	stop := start(t, pool, log, models(pool))
	had := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Opened{})...))
	wait(t, pool, log)
	stop()
	w := projections.NewWaiter(pool, projections.WithPatience(10*time.Second))
	heard := w.Changed("threads")
	run(t, w.Run)
	<-heard
	p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Titled{})...))
	answer := make(chan error, 1)
	go func() { answer <- w.Wait(context.Background(), p, "events", "threads") }()
	<-time.After(200 * time.Millisecond) // by now it waits, and knows that both are behind
	eventually(t, func() error {         // it may begin to wait before or after: both are told
		_, err := pool.Exec(t.Context(), `UPDATE projections SET paused_at = cairn_now(), paused_by = 'ann' WHERE name = 'threads'`)
		return err
	})
	if _, err := pool.Exec(t.Context(), `SELECT pg_notify('cairn_projections', '{"p":0,"c":["threads"]}')`); err != nil {
		t.Fatal(err)
	}
	var paused *projections.Paused
	if err := <-answer; !errors.As(err, &paused) || !errors.Is(err, projections.ErrPaused) {
		t.Fatalf("waiting answered %v, wanted ErrPaused", err)
	}
	if paused.Projection != "threads" || paused.By != "ann" || paused.Next != had.Offset+1 || paused.Want != p.Offset || paused.Since.IsZero() {
		t.Fatalf("it said %+v", paused)
	}
	if err := w.Wait(t.Context(), had, "threads"); err != nil {
		t.Fatalf("what a paused model has can be read, but waiting answered %v", err)
	}
}

// TestAScopeWaitsForItsLaneOnly: what other lanes of the partition have not read is no concern of it.
func TestAScopeWaitsForItsLaneOnly(t *testing.T) {
	const lanes = 4
	pool := pgtest.Read(t)
	w := listen(t, pool)
	quick := projections.NewWaiter(pool, projections.WithPatience(10*time.Millisecond))
	if _, err := pool.Exec(t.Context(), `UPDATE projection_generations SET lanes = $1 WHERE projection = 'threads'`, lanes); err != nil {
		t.Fatal(err)
	}
	for lane := range lanes {
		if _, err := pool.Exec(t.Context(), `INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
			VALUES ('threads', 1, 0, $1, $2, 1, 1, 'w', false, 0, -1, cairn_now())`, lane, 10*lane); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		scope := domain.Scope(fmt.Sprintf("user-%d", i))
		next := int64(10 * projections.LaneOf(scope, lanes))
		p := streams.Position{Scope: scope, Position: 1, Era: 1, Offset: next - 1}
		if next > 0 {
			if err := w.Wait(t.Context(), p, "threads"); err != nil {
				t.Fatalf("%s in lane %d: what it has: %v", scope, next/10, err)
			}
		}
		p.Offset++
		var behind *projections.Behind
		if err := quick.Wait(t.Context(), p, "threads"); !errors.As(err, &behind) || behind.Next != next {
			t.Fatalf("%s in lane %d: what it has not: %v", scope, next/10, err)
		}
	}
}

// TestAWaiterFollowsASwap: what the generation has that was read before says nothing any more.
func TestAWaiterFollowsASwap(t *testing.T) {
	pool, m, _ := pairs(t)
	w := projections.NewWaiter(pool, projections.WithPatience(100*time.Millisecond))
	run(t, w.Run)
	move := func(generation, next int) {
		t.Helper()
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `UPDATE projection_checkpoints SET next_offset = $3 WHERE projection = $1 AND generation = $2`, m.name, generation, next); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), `SELECT pg_notify('cairn_projections', $1)`, fmt.Sprintf(`{"p":0,"n":%d,"e":1,"m":["%s %d"],"t":["tally"]}`, next, m.name, generation))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(offset int64) streams.Position {
		return streams.Position{Scope: scope, Position: 1, Era: 1, Offset: offset}
	}
	listening := w.Changed(m.name)
	eventually(t, func() error { // whoever listens knows which generation it heard of
		execute(t, pool, `SELECT pg_notify('cairn_projections', '{"t":["tally"]}')`)
		select {
		case <-listening:
			return nil
		default:
			return errors.New("nobody listens")
		}
	})
	move(2, 3)
	move(1, 3)
	if err := w.Wait(t.Context(), at(2), m.name); err != nil {
		t.Fatal(err)
	}
	if _, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{Unverified: true}); err != nil {
		t.Fatal(err)
	}
	heard := w.Changed(m.name)
	move(1, 10)
	awake(t, heard)
	var behind *projections.Behind
	if err := w.Wait(t.Context(), at(7), m.name); !errors.As(err, &behind) || behind.Next != 3 {
		t.Fatalf("waiting answered %v, wanted *Behind at 3", err)
	}
	move(2, 8)
	eventually(t, func() error { return w.Wait(t.Context(), at(7), m.name) })
}
