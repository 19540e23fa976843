package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// ring is the way of a command as it is in production, with the data keys in memory, as they are for 60 s: embedded broker
// on disk, writer, asker, states and answers in Postgres. Beside it stands direct, on the same broker.
type ring struct {
	asker  *kafka.Asker
	direct *direct
	schema *codec.Schema
	stop   func() error
}

// database starts Postgres in dir, with the tables of the read side, and answers the states of its writer.
func database(ctx context.Context, dir string) (streams.States, func() error, error) {
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	dsn := cluster.DSN(migrations.Read.Name())
	if err := migrations.Up(ctx, dsn, migrations.Read); err != nil {
		return nil, nil, errors.Join(err, cluster.Stop())
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, errors.Join(err, cluster.Stop())
	}
	return writerstates.New(pool), func() error {
		pool.Close()
		return cluster.Stop()
	}, nil
}

// startRing starts everything under dir. The states are those of a fresh database.
func startRing(ctx context.Context, dir string, synced bool, states streams.States) (*ring, error) {
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: filepath.Join(dir, "broker"), Sync: synced, Fatal: func(error) {}})
	if err != nil {
		return nil, err
	}
	config := kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	r, err := runRing(ctx, config, schema, states)
	if err != nil {
		return nil, errors.Join(err, broker.Close())
	}
	stopRing := r.stop
	r.stop = func() error { return errors.Join(stopRing(), broker.Close()) }
	return r, nil
}

func runRing(ctx context.Context, config kafka.Config, schema *codec.Schema, states streams.States) (*ring, error) {
	if err := config.Ensure(ctx); err != nil {
		return nil, err
	}
	keys := memory.NewKeys()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		return nil, err
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		return nil, err
	}
	limit, err := newDirect(ctx, config, schema, keys)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	for _, run := range []func(context.Context) error{writer.Run, asker.Run, limit.run} {
		group.Go(func() error {
			defer cancel()
			if err := run(running); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	stop := func() error {
		cancel()
		return group.Wait()
	}
	if err := asker.Ready(running); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &ring{asker: asker, direct: limit, schema: schema, stop: stop}, nil
}

// asker is one of many who ask: a user with a thread.
type asker struct {
	scope  domain.Scope
	thread string
	ring   *ring
	caller caller
}

// newAsker opens the asker's thread, in the ring and in the caller's own state.
func (r *ring) newAsker(ctx context.Context) (*asker, error) {
	id := uuid.NewString()
	aggregate, ok := r.schema.Aggregate("thread")
	if !ok {
		return nil, errors.New("bench: there is no aggregate thread")
	}
	a := &asker{scope: domain.User(id), thread: id, ring: r}
	a.caller = caller{direct: r.direct, aggregate: aggregate, stream: domain.NewStream("thread", id), state: aggregate.Zero()}
	open := a.command(thread.Open{On: thread.On{Thread: id}})
	if _, err := r.asker.Ask(ctx, open); err != nil {
		return nil, fmt.Errorf("bench: opening a thread: %w", err)
	}
	return a, a.caller.ask(ctx, open)
}

// command is a new command of the asker, with an id that is minted for it.
func (a *asker) command(body domain.Command) streams.Command {
	return streams.Command{
		Scope: a.scope, ID: streams.CommandID(a.scope, uuid.NewString()), Minted: true, Body: body,
		Actor: domain.Actor{Kind: domain.ActorUser, ID: a.thread},
	}
}

func (a *asker) rename() streams.Command {
	return a.command(thread.Rename{On: thread.On{Thread: a.thread}, Title: thread.Title{Text: "What was said about the week of the fair, and who brings the tent"}})
}
