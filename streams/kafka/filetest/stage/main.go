// Command stage is a writer and a few clients on an embedded broker in a directory, for tests of what its files survive. It
// prints what each client asks and is told, the moment it happens; run again, it asks all of it again under the same ids.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// What the process ends with where the broker can't keep data, and where the stage itself does not work.
const (
	exitBroken = 3
	exitFailed = 4
)

func main() {
	dir := flag.String("dir", "", "the broker's directory")
	clients := flag.Int("clients", 2, "that ask at once")
	each := flag.Int("each", 5, "requests of a client")
	unsynced := flag.Bool("unsynced", false, "let the broker acknowledge what is not on the disk")
	flag.Parse()
	config := kafka.EmbeddedConfig{
		Dir: *dir, Sync: !*unsynced, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Fatal: func(err error) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitBroken)
		},
	}
	if err := run(config, *clients, *each); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
}

func run(embedded kafka.EmbeddedConfig, clients, each int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, err := kafka.StartEmbedded(embedded)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	config := kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	if err := config.Ensure(ctx); err != nil {
		return err
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return err
	}
	states := memory.NewStates()
	writer, err := kafka.NewWriter(kafka.WriterConfig{
		Config: config, Schema: schema, Keys: keys{}, States: states, Now: time.Now, FlushEvery: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys{}, States: states})
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	group, life := errgroup.WithContext(life)
	group.Go(func() error { return writer.Run(life) })
	group.Go(func() error { return asker.Run(life) })
	err = asker.Ready(ctx)
	if err == nil {
		err = ask(ctx, asker, clients, each)
	}
	stop()
	if ended := group.Wait(); err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	return err
}

// line is what happened, for who judges.
type line struct {
	Client int               `json:"client"`
	Name   string            `json:"name"`
	Scope  domain.Scope      `json:"scope"`
	ID     string            `json:"id"`
	Sent   bool              `json:"sent,omitempty"` // it is about to be; else it is over
	Answer streams.Answer    `json:"answer"`
	No     *domain.Rejection `json:"no,omitempty"`
	Error  string            `json:"error,omitempty"`
}

func ask(ctx context.Context, asker streams.Asker, clients, each int) error {
	var out sync.Mutex
	say := func(l line) error {
		out.Lock()
		defer out.Unlock()
		return json.NewEncoder(os.Stdout).Encode(l)
	}
	group, ctx := errgroup.WithContext(ctx)
	for c := range clients {
		group.Go(func() error {
			for k := range each {
				scope := domain.User(fmt.Sprint("u", (c+k)%2))
				l := line{Client: c, Name: fmt.Sprintf("%d of client %d", k, c), Scope: scope, Sent: true}
				l.ID = streams.OwnID(scope, l.Name)
				if err := say(l); err != nil {
					return err
				}
				var err error
				l.Sent = false
				l.Answer, err = asker.Ask(ctx, streams.Command{
					Scope: scope, ID: l.ID, Actor: domain.Actor{Kind: domain.ActorUser, ID: "u"}, Body: wish(c, k),
				})
				if !errors.As(err, &l.No) && err != nil {
					l.Error = err.Error()
				}
				if err := say(l); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// wish is a command: a thread, its title, and one that is refused.
func wish(client, k int) domain.Command {
	on := thread.On{Thread: fmt.Sprintf("%d-%d", client, k)}
	if k%4 == 3 {
		return thread.Rename{On: on, Title: thread.Title{Text: "there is no such thread"}}
	}
	return thread.Open{On: on}
}

// keys are the same in every process: each scope's follow from its name.
type keys struct{}

// Current implements streams.Keys.
func (keys) Current(_ context.Context, scope domain.Scope) (streams.Key, error) {
	sum := sha256.Sum256([]byte(scope))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return streams.Key{}, err
	}
	gcm, err := cipher.NewGCM(block)
	return streams.Key{Version: 1, AEAD: sealer{gcm}}, err
}

// Version implements streams.Keys.
func (k keys) Version(ctx context.Context, scope domain.Scope, _ int) (streams.Key, error) {
	return k.Current(ctx, scope)
}

// Index implements streams.Keys.
func (keys) Index(_ context.Context, scope domain.Scope) ([]byte, error) {
	sum := sha256.Sum256([]byte("index of " + scope))
	return sum[:], nil
}

type sealer struct{ cipher.AEAD }

// Encrypt implements streams.AEAD.
func (s sealer) Encrypt(plain, with []byte) ([]byte, error) {
	nonce := make([]byte, s.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return s.Seal(nonce, nonce, plain, with), nil
}

// Decrypt implements streams.AEAD.
func (s sealer) Decrypt(sealed, with []byte) ([]byte, error) {
	if len(sealed) < s.NonceSize() {
		return nil, errors.New("too short")
	}
	return s.Open(nil, sealed[:s.NonceSize()], sealed[s.NonceSize():], with)
}
