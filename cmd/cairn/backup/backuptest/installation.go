// Package backuptest is a small installation for tests of what copies and repairs one: a broker, the two databases, and a
// writer and projectors that run when a test asks for them.
package backuptest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Installation is a broker and two databases.
type Installation struct {
	T                 testing.TB
	Kafka             kafka.Config
	ReadURL, VaultURL string
	Read, Vault       *pgxpool.Pool
	Master            []byte
	Keys              *vault.Vault
	States            *writerstates.States
	Schema            *codec.Schema
}

// New is an empty installation with that many partitions.
func New(t testing.TB, partitions int32) *Installation {
	t.Helper()
	return On(t, kafkatest.Broker(t, kafkatest.Partitions(partitions)), pgtest.DSN(t, migrations.Read), pgtest.DSN(t, migrations.Vault))
}

// On is an installation on what is there.
func On(t testing.TB, config kafka.Config, readURL, vaultURL string) *Installation {
	t.Helper()
	i := &Installation{T: t, Kafka: config, ReadURL: readURL, VaultURL: vaultURL, Master: bytes.Repeat([]byte{7}, 32)}
	var err error
	if i.Schema, err = codec.New(aggregates.All()...); err != nil {
		t.Fatal(err)
	}
	for url, pool := range map[string]**pgxpool.Pool{readURL: &i.Read, vaultURL: &i.Vault} {
		if *pool, err = pgxpool.New(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*pool).Close)
	}
	i.Keys = vault.Open(i.Vault, i.Master, time.Now)
	i.States = writerstates.New(i.Read)
	i.Kafka.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := i.States.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	return i
}

// Run lets a writer and projectors work while do asks, until every model stands at the log's end.
func (i *Installation) Run(do func(ctx context.Context, asker streams.Asker)) {
	i.T.Helper()
	ctx, cancel := context.WithTimeout(i.T.Context(), time.Minute)
	defer cancel()
	if err := i.Keys.Check(ctx); err != nil {
		i.T.Fatal(err)
	}
	if err := i.Kafka.Ensure(ctx); err != nil {
		i.T.Fatal(err)
	}
	writer, err := kafka.NewWriter(kafka.WriterConfig{
		Config: i.Kafka, Schema: i.Schema, Keys: i.Keys, States: i.States, Now: time.Now, FlushEvery: 50 * time.Millisecond,
	})
	if err != nil {
		i.T.Fatal(err)
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: i.Kafka, Schema: i.Schema, Keys: i.Keys, States: i.States})
	if err != nil {
		i.T.Fatal(err)
	}
	tailer, err := kafka.NewTailer(i.Kafka)
	if err != nil {
		i.T.Fatal(err)
	}
	defer tailer.Close()
	engine := projections.NewEngine(projections.EngineConfig{Pool: i.Read, Tailer: tailer, Schema: i.Schema, Projectors: []projections.Projector{
		events.New(projections.NewDB(i.Read)).Projector(), erasures.New(projections.NewDB(i.Read)).Projector(),
	}})
	life, stop := context.WithCancel(ctx)
	group, life := errgroup.WithContext(life)
	group.Go(func() error { return writer.Run(life) })
	group.Go(func() error { return asker.Run(life) })
	group.Go(func() error { return engine.Run(life) })
	if err := asker.Ready(ctx); err != nil {
		i.T.Fatal(err)
	}
	do(ctx, asker)
	i.level(ctx, tailer)
	stop()
	if err := group.Wait(); err != nil && life.Err() == nil {
		i.T.Fatal(err)
	}
}

// level waits until every stored checkpoint stands at the log's end.
func (i *Installation) level(ctx context.Context, tailer *kafka.Tailer) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for p := range tailer.Partitions() {
		for {
			end, err := tailer.End(ctx, p)
			if err != nil {
				i.T.Fatal(err)
			}
			var low int64
			if err := i.Read.QueryRow(ctx, `SELECT least(
				(SELECT coalesce(min(next_offset), 0) FROM projection_checkpoints WHERE partition = $1),
				(SELECT coalesce(min(next_offset), 0) FROM writer_checkpoints WHERE partition = $1))`, p).Scan(&low); err != nil {
				i.T.Fatal(err)
			}
			if low >= end {
				break
			}
			select {
			case <-ctx.Done():
				i.T.Fatalf("partition %d stands at %d of %d", p, low, end)
			case <-tick.C:
			}
		}
	}
}

// trace is what every command is part of, so that what is copied has headers that not every record has.
const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Ask asks once and fails the test unless it is accepted.
func (i *Installation) Ask(ctx context.Context, asker streams.Asker, user, request string, body domain.Command) streams.Answer {
	i.T.Helper()
	scope := domain.User(user)
	answer, err := asker.Ask(tracing.From(ctx, trace), streams.Command{
		Scope: scope, ID: streams.OwnID(scope, request), Actor: domain.Actor{Kind: domain.ActorUser, ID: user}, Body: body,
	})
	if err != nil {
		i.T.Fatalf("%s of %s: %v", request, user, err)
	}
	return answer
}

// Register makes an account in the vault and in the log.
func (i *Installation) Register(ctx context.Context, asker streams.Asker, user string) {
	i.T.Helper()
	if _, _, err := i.Keys.Claim(ctx, vault.Credential{UserID: user, EmailDigest: []byte(user), PasswordHash: "hash", Tier: account.Free}); err != nil {
		i.T.Fatal(err)
	}
	i.Ask(ctx, asker, user, "register", account.Register{On: account.On{Account: user}})
	if err := i.Keys.Registered(ctx, user); err != nil {
		i.T.Fatal(err)
	}
}

// Post posts so many messages in threads of their own.
func (i *Installation) Post(ctx context.Context, asker streams.Asker, user, text string, n int) {
	i.T.Helper()
	for k := range n {
		i.Ask(ctx, asker, user, fmt.Sprint(text, k), thread.PostMessage{
			On: thread.On{Thread: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, user, text, k)).String()}, New: true,
			RunID: uuid.NewString(), Channel: thread.Floating, Content: thread.Content{Text: text},
		})
	}
}
