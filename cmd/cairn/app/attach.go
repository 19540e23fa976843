package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/cmd/cairn/eventlog"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TailRun writes a run's events as `cairn events tail` shows them.
func (a *App) TailRun(ctx context.Context, out io.Writer, scope domain.Scope, run string) error {
	return eventlog.Tail(ctx, eventlog.Options{Tailer: a.tailer, Schema: a.schema, Keys: a.vault, Scope: scope, Run: run, Out: out})
}

// Migrate brings databases and topics up to date.
func Migrate(ctx context.Context, config Config) error {
	for _, database := range []struct {
		dsn   string
		which migrations.Database
	}{{config.VaultURL, migrations.Vault}, {config.DatabaseURL, migrations.Read}} {
		if err := migrations.Up(ctx, database.dsn, database.which); err != nil {
			return err
		}
	}
	return config.CheckTopics(ctx)
}

func (c Config) kafka() (kafka.Config, error) {
	topics, err := c.topics()
	return kafka.Config{Seeds: c.Brokers, LiveSeeds: c.LiveBrokers, Topics: topics, Options: []kgo.Opt{kgo.WithHooks(c.LogHooks...)}}, err
}

// CheckTopics compares the topics on the brokers with the topics file, and makes what is missing.
func (c Config) CheckTopics(ctx context.Context) error {
	config, err := c.kafka()
	if err != nil {
		return err
	}
	return config.Ensure(ctx)
}

// CheckVault makes sure that the configured master key opens the vault of a running Cairn.
func (c Config) CheckVault(ctx context.Context) error {
	o := &Operator{config: c}
	defer o.Close()
	return o.openVault(ctx)
}

// Tail prints the log of a running Cairn.
func Tail(ctx context.Context, config Config, sealed bool, o eventlog.Options) (err error) {
	if o.Schema, err = codec.New(aggregates.All()...); err != nil {
		return err
	}
	log, err := config.kafka()
	if err != nil {
		return err
	}
	voided, closing, err := config.voided(ctx, log.Topics.CurrentEra())
	if err != nil {
		return err
	}
	defer closing()
	log.Voided = voided
	tailer, err := kafka.NewTailer(log)
	if err != nil {
		return err
	}
	defer tailer.Close()
	o.Tailer = tailer
	if sealed {
		return eventlog.Tail(ctx, o)
	}
	master, err := config.master(true)
	if err != nil {
		return fmt.Errorf("%w (or print sealed content as [sealed] with --sealed)", err)
	}
	pool, err := pgxpool.New(ctx, config.VaultURL)
	if err != nil {
		return fmt.Errorf("connect to the vault: %w", err)
	}
	defer pool.Close()
	keys := vault.Open(pool, master, config.now())
	if err := keys.Check(ctx); err != nil {
		return err
	}
	o.Keys = keys
	return eventlog.Tail(ctx, o)
}

// Operator is what the operator's commands work with, on a running Cairn.
type Operator struct {
	config Config
	read   *pgxpool.Pool
	vaults *pgxpool.Pool
	vault  *vault.Vault
	close  []func()
}

// Operate connects to the databases of a running Cairn.
func Operate(ctx context.Context, config Config) (*Operator, error) {
	o := &Operator{config: config}
	var err error
	if o.read, err = pgxpool.New(ctx, config.DatabaseURL); err != nil {
		return nil, fmt.Errorf("connect to the read models: %w", err)
	}
	o.close = append(o.close, o.read.Close)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := o.read.Ping(short); err != nil {
		o.Close()
		return nil, fmt.Errorf("the database does not answer (is Cairn running?): %w", err)
	}
	return o, nil
}

// Close lets go.
func (o *Operator) Close() {
	for i := len(o.close) - 1; i >= 0; i-- {
		o.close[i]()
	}
}

// Projections are where the read models stand.
func (o *Operator) Projections(ctx context.Context) ([]projections.State, error) {
	return projections.List(ctx, o.read)
}

// Effects are the open effects, of one scope or of all.
func (o *Operator) Effects(ctx context.Context, scope domain.Scope, limit int) ([]openeffects.Claimed, error) {
	return openeffects.New(projections.NewDB(o.read)).List(ctx, scope, limit)
}

// Work are the work tables.
func (o *Operator) Work() *work.Tables { return work.New(o.read) }

// openVault opens the vault; it needs the master key.
func (o *Operator) openVault(ctx context.Context) error {
	if o.vault != nil {
		return nil
	}
	master, err := o.config.master(true)
	if err != nil {
		return err
	}
	if o.vaults, err = pgxpool.New(ctx, o.config.VaultURL); err != nil {
		return fmt.Errorf("connect to the vault: %w", err)
	}
	o.close = append(o.close, o.vaults.Close)
	o.vault = vault.Open(o.vaults, master, o.config.now())
	return o.vault.Check(ctx)
}

// KeysLost ends the wait for a data key that is lost for good: its scope counts as erased from now on.
func (o *Operator) KeysLost(ctx context.Context, scope domain.Scope) error {
	if err := o.openVault(ctx); err != nil {
		return err
	}
	return o.vault.Lost(ctx, scope)
}

// ErrNoAccount says that no account has this e-mail.
var ErrNoAccount = errors.New("no account has this e-mail")

// ChangeTier moves the account with this e-mail to a tier.
func (o *Operator) ChangeTier(ctx context.Context, email string, tier account.Tier) (userID string, err error) {
	err = o.asAccounts(ctx, email, func(s *accounts.Accounts, user string) error {
		userID = user
		return s.ChangeTier(ctx, user, tier)
	})
	return userID, err
}

// Erase ends the account with this e-mail and destroys its keys.
func (o *Operator) Erase(ctx context.Context, email string) (userID string, err error) {
	err = o.asAccounts(ctx, email, func(s *accounts.Accounts, user string) error {
		userID = user
		return s.Erase(ctx, accounts.Principal{UserID: user, Scope: domain.User(user)})
	})
	return userID, err
}

// asAccounts finds the account and gives do a service that can send commands.
func (o *Operator) asAccounts(ctx context.Context, email string, do func(*accounts.Accounts, string) error) error {
	if err := o.openVault(ctx); err != nil {
		return err
	}
	digest, err := o.vault.EmailDigest(ctx, email)
	if err != nil {
		return err
	}
	credential, err := o.vault.ByEmail(ctx, digest)
	if errors.Is(err, vault.ErrNotFound) {
		return ErrNoAccount
	}
	if err != nil {
		return err
	}
	return o.asking(ctx, func(_ *codec.Schema, asker streams.Asker) error {
		return do(accounts.New(accounts.Config{Vault: o.vault, Asker: asker, Now: o.config.now()}), credential.UserID)
	})
}

// Answers reports whether a Cairn answers at a URL.
func Answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
