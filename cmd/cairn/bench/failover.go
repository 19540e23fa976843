package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// steady is how long nothing happens between two steps.
const steady = 5 * time.Second

// failover is what people who ask without pause see of two writers in processes of their own: one joins, is killed, comes
// back, and leaves. A partition's pause is the longest time between two answers of it.
func failover(ctx context.Context, options KafkaOptions) (figures []Figure, err error) {
	fmt.Fprintln(options.Progress, "two writers: starting")
	p, stop, err := startPeople(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var writers []*writer
	defer func() {
		for _, w := range writers {
			w.end(syscall.SIGKILL)
		}
	}()
	start := func() (*writer, error) {
		w, err := startWriter(options.Binary, p.env)
		if err == nil {
			writers = append(writers, w)
		}
		return w, err
	}
	n := options.Topics.N()
	first, err := start()
	if err != nil {
		return nil, err
	}
	if err := allLed(ctx, n, first); err != nil {
		return nil, err
	}
	quiet := p.ask(ctx)
	defer func() { err = errors.Join(err, quiet()) }()
	record := func(name string, only map[int32]bool) {
		pauses := p.pauses(only)
		figures = append(figures, NewFigure(name, "s", pauses, nil, ""))
		fmt.Fprintf(options.Progress, "%s: at most %.2f s\n", name, slices.Max(pauses))
		p.fresh()
	}
	if err := p.pass(ctx, steady); err != nil {
		return nil, err
	}
	record("two writers, nothing happens: longest without an answer", nil)

	second, err := start()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(allLed(ctx, n, first, second), p.pass(ctx, steady)); err != nil {
		return figures, err
	}
	record("two writers, one joins: longest without an answer", nil)

	p.fresh()
	lost, err := second.leads(ctx)
	if err != nil {
		return figures, err
	}
	second.end(syscall.SIGKILL)
	reading, err := p.readAll(ctx, lost)
	if err != nil {
		return figures, err
	}
	if err := errors.Join(allLed(ctx, n, first), p.pass(ctx, steady)); err != nil {
		return figures, err
	}
	pauses := p.pauses(lost)
	figures = append(figures, NewFigure("one of two writers killed: longest without a writer", "s", []float64{slices.Max(pauses)}, nil, "").Aim(AtMost, 9))
	record("one of two writers killed, the other's partitions: longest without an answer", others(n, lost))
	figures = append(figures, NewFigure("one of two writers killed: reading its partitions from their beginning", "s", []float64{reading.Seconds()}, nil, ""))
	fmt.Fprintf(options.Progress, "one of two writers killed: its partitions had none for %.2f s\n", slices.Max(pauses))

	third, err := start()
	if err != nil {
		return figures, err
	}
	if err := errors.Join(allLed(ctx, n, first, third), p.pass(ctx, steady)); err != nil {
		return figures, err
	}
	p.fresh()
	third.end(syscall.SIGTERM)
	if err := errors.Join(allLed(ctx, n, first), p.pass(ctx, steady)); err != nil {
		return figures, err
	}
	record("two writers, one leaves: longest without an answer", nil)
	return figures, nil
}

func others(n int32, but map[int32]bool) map[int32]bool {
	all := map[int32]bool{}
	for p := range n {
		if !but[p] {
			all[p] = true
		}
	}
	return all
}

// people ask without pause, two in each partition.
type people struct {
	asker  *kafka.Asker
	config kafka.Config
	env    []string // of a writer

	mu       sync.Mutex
	answered []time.Time
	longest  []time.Duration
}

func startPeople(ctx context.Context, options KafkaOptions) (p *people, stop func() error, err error) {
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(options.Dir, "postgres-two")})
	if err != nil {
		return nil, nil, err
	}
	closers := []func() error{cluster.Stop}
	stop = func() error {
		var faults []error
		for _, c := range slices.Backward(closers) {
			faults = append(faults, c())
		}
		return errors.Join(faults...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	pools := map[migrations.Database]*pgxpool.Pool{}
	for _, which := range []migrations.Database{migrations.Read, migrations.Vault} {
		dsn := cluster.DSN(which.Name())
		if err := migrations.Up(ctx, dsn, which); err != nil {
			return nil, nil, err
		}
		if pools[which], err = pgxpool.New(ctx, dsn); err != nil {
			return nil, nil, fmt.Errorf("bench: %w", err)
		}
		closers = append(closers, func() error { pools[which].Close(); return nil })
	}
	master := make([]byte, vault.MasterKeySize)
	n := options.Topics.N()
	p = &people{
		config:   kafka.Config{Seeds: options.Brokers, Topics: options.Topics},
		answered: make([]time.Time, n), longest: make([]time.Duration, n),
	}
	p.env = []string{
		"CAIRN_BROKERS=" + strings.Join(options.Brokers, ","), "CAIRN_TOPIC_PREFIX=" + options.Topics.Prefix, "CAIRN_LOG_LEVEL=warn",
		fmt.Sprint("CAIRN_PARTITIONS=", n), fmt.Sprint("CAIRN_REPLICATION=", max(1, options.Topics.Replication)),
		"CAIRN_DATABASE_URL=" + cluster.DSN(migrations.Read.Name()), "CAIRN_VAULT_URL=" + cluster.DSN(migrations.Vault.Name()),
		"CAIRN_MASTER_KEY=" + hex.EncodeToString(master),
	}
	if err := p.config.Ensure(ctx); err != nil {
		return nil, nil, err
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return nil, nil, err
	}
	p.asker, err = kafka.NewAsker(kafka.AskerConfig{
		Config: p.config, Schema: schema, Keys: vault.Open(pools[migrations.Vault], master, time.Now), States: writerstates.New(pools[migrations.Read]),
	})
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return p.asker.Run(running) })
	closers = append(closers, func() error {
		cancel()
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return p, stop, p.asker.Ready(ctx)
}

// ask lets them ask until quiet is called.
func (p *people) ask(ctx context.Context) (quiet func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	have := make([]int, p.config.Topics.N())
	for slices.Min(have) < 2 {
		id := uuid.NewString()
		if at := p.config.Topics.PartitionOf(domain.User(id)); have[at] < 2 {
			have[at]++
			group.Go(func() error { return p.person(ctx, id, at) })
		}
	}
	p.fresh()
	return func() error {
		cancel()
		return group.Wait()
	}
}

// person asks one command after the other, and repeats what it got no answer to.
func (p *people) person(ctx context.Context, id string, partition int32) error {
	a := &asker{scope: domain.User(id), thread: id}
	c := a.command(thread.Open{On: thread.On{Thread: id}})
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := p.asker.Ask(wait, c)
		cancel()
		var rejected *domain.Rejection
		switch {
		case err == nil:
			p.heard(partition)
			c = a.rename()
		case errors.As(err, &rejected):
			return fmt.Errorf("bench: a command was rejected: %w", err)
		default:
			c.Minted = false // it may have been decided
		}
	}
	return nil
}

func (p *people) heard(partition int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longest[partition] = max(p.longest[partition], now.Sub(p.answered[partition]))
	p.answered[partition] = now
}

// fresh begins to measure anew.
func (p *people) fresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.answered {
		p.answered[i], p.longest[i] = time.Now(), 0
	}
}

// pauses are the longest times without an answer since fresh, in seconds; only those partitions, nil for all.
func (p *people) pauses(only map[int32]bool) []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []float64
	for i := range p.longest {
		if only == nil || only[int32(i)] {
			all = append(all, max(p.longest[i], time.Since(p.answered[i])).Seconds())
		}
	}
	return all
}

// pass lets time pass.
func (p *people) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// readAll reads partitions from their beginning to their end, while they have no writer.
func (p *people) readAll(ctx context.Context, partitions map[int32]bool) (time.Duration, error) {
	began := time.Now()
	tailer, err := kafka.NewTailer(p.config)
	if err != nil {
		return 0, err
	}
	defer tailer.Close()
	enough := errors.New("enough")
	var group errgroup.Group
	for partition := range partitions {
		group.Go(func() error {
			end, err := tailer.End(ctx, partition)
			if err != nil {
				return err
			}
			err = tailer.Tail(ctx, partition, streams.Start(), func(_ context.Context, b streams.Batch) error {
				if b.Next.Next >= end {
					return enough
				}
				return nil
			})
			if errors.Is(err, enough) {
				return nil
			}
			return err
		})
	}
	err = group.Wait()
	return time.Since(began), err
}
