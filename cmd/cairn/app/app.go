package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/cmd/cairn/pressure"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/tracing"
)

// App is a running process.
type App struct {
	config Config
	log    *slog.Logger
	life   *lifecycle
	infra  *infra

	schema *codec.Schema
	db     *projections.DB // one for the process: it knows which generations are read
	vault  *vault.Vault
	states *writerstates.States
	tailer *kafka.Tailer
	live   *kafka.Live
	waiter *projections.Waiter

	events   *events.Model
	threads  *threads.Model
	runs     *runs.Model
	devices  *devices.Model
	requests *requests.Model
	effects  *openeffects.Model
	timers   *timers.Model
	erasures *erasures.Model
	work     *work.Tables

	writer    *kafka.Writer
	asker     *kafka.Asker
	publisher *kafka.Publisher
	accounts  *accounts.Accounts
	fanout    *fanout.Hub
	gateway   *live.Gateway
	embedder  embed.Embedder
	pressure  *pressure.Pressure

	provider trace.TracerProvider // nil: nothing is traced
	tracer   tracing.Tracer

	registry *prometheus.Registry
	admin    admin
	adminURL string

	version string
	url     string
	self    work.Process
	level   atomic.Int64 // the format level that may be written
}

// Start brings up the configured roles and returns when the process serves. Stop ends it.
func Start(ctx context.Context, config Config, version string, log *slog.Logger) (*App, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	a := &App{config: config, log: log, life: newLifecycle(log), version: version, registry: newRegistry(config, version)}
	if err := a.start(ctx); err != nil {
		a.life.stop()
		return nil, err
	}
	return a, nil
}

// URL is where the process serves HTTP.
func (a *App) URL() string { return a.url }

// Wait returns when ctx ends (nil) or a part fails.
func (a *App) Wait(ctx context.Context) error { return a.life.wait(ctx) }

// Stop ends every part in order and returns when all have stopped.
func (a *App) Stop() {
	a.life.stop()
	if a.config.Embedded() {
		os.Remove(runtimePath(a.config.Data)) //nolint:gosec,errcheck // a stale file is replaced at the next start
	}
}

func (a *App) start(ctx context.Context) error {
	var err error
	if a.schema, err = codec.New(aggregates.All()...); err != nil {
		return err
	}
	if err := a.config.refuseRestoring(); err != nil {
		return err
	}
	if err := a.openTraces(ctx); err != nil {
		return err
	}
	if err := a.startAdmin(ctx); err != nil {
		return err
	}
	if a.infra, err = a.config.openBroker(a.life, a.log); err != nil {
		return err
	}
	a.infra.kafka.Tracer = a.tracer
	// The address is taken before the long part: one that is in use is said at once, and clients that come
	// back early wait instead of being refused.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.config.Listen)
	if err != nil {
		return fmt.Errorf("serve HTTP: %w (end what listens there, or choose another host:port with CAIRN_LISTEN)", err)
	}
	a.life.closing("address", func() { listener.Close() }) //nolint:errcheck,gosec // the server has closed it, if it came so far
	if err := a.config.openDatabases(ctx, a.infra, a.life, a.log); err != nil {
		return err
	}
	a.db = projections.NewDB(a.infra.read)
	a.measureInfra()
	if err := a.openVault(ctx); err != nil {
		return err
	}
	if err := a.openLevel(ctx); err != nil {
		return err
	}
	if err := a.openLog(ctx); err != nil {
		return err
	}
	a.openModels()
	if err := a.startAsking(ctx); err != nil {
		return err
	}
	if a.config.has(RoleProjector) {
		engine := projections.NewEngine(projections.EngineConfig{
			Pool: a.infra.read, Tailer: a.tailer, Schema: a.schema, Log: a.log, Projectors: Projectors(a.infra.read),
			Era: a.infra.kafka.Topics.CurrentEra(), Lanes: a.config.Lanes, Tracer: a.tracer, Observe: projections.Measure(a.registry),
		})
		a.life.start("projectors", engine.Run)
		a.startRebuilder(Projectors(a.infra.read))
	}
	if err := a.startEffects(ctx); err != nil {
		return err
	}
	if err := a.startPublisher(); err != nil {
		return err
	}
	if err := a.startPolicies(ctx); err != nil {
		return err
	}
	a.startGateway()
	a.measureFollowers()
	return a.serve(listener)
}

func (a *App) openVault(ctx context.Context) error {
	if err := a.refuseLostVault(ctx); err != nil {
		return err
	}
	a.states = writerstates.New(a.infra.read)
	a.infra.kafka.Stored = func(ctx context.Context, partition int32) (streams.Checkpoint, error) {
		found, err := a.states.Load(ctx, partition, streams.Lookup{})
		return found.Checkpoint, err
	}
	a.vault = vault.Open(a.infra.vault, a.infra.master, a.config.Now, vault.NoSecondKey(a.hasEvents))
	if err := a.vault.Check(ctx); err != nil {
		return err
	}
	a.life.start("vault", a.vault.Run)
	return nil
}

// refuseLostVault stops where the log has events and the vault is new: going on would mint second keys for scopes
// that have sealed content, and let nobody in.
func (a *App) refuseLostVault(ctx context.Context) error {
	fresh, err := vault.Fresh(ctx, a.infra.vault)
	if err != nil || !fresh {
		return err
	}
	records, err := a.infra.kafka.Appended(ctx)
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	if records == 0 {
		return nil
	}
	return fmt.Errorf("the log has %d records: %w", records, ErrVaultLost)
}

// ErrVaultLost says that there is a log, but no vault with its keys.
var ErrVaultLost = errors.New("the vault is new, but the log is not: bring the vault's database back from its backup, or begin with an empty data directory")

// hasEvents reports whether the writer has stored a position of the scope.
func (a *App) hasEvents(ctx context.Context, scope domain.Scope) (bool, error) {
	found, err := a.states.Load(ctx, a.infra.kafka.Topics.PartitionOf(scope), streams.Lookup{Scopes: []domain.Scope{scope}})
	return len(found.Scopes) > 0 && found.Scopes[0].Position > 0, err
}

// openLog makes or checks the topics, compares the log's ends with every stored checkpoint, and opens readers.
func (a *App) openLog(ctx context.Context) error {
	a.infra.kafka.Voided = a.vault.Voided(a.infra.kafka.Topics.CurrentEra())
	if err := a.infra.kafka.Ensure(ctx); err != nil {
		return err
	}
	if err := errors.Join(a.checkProjections(ctx), a.checkRevisions(ctx)); err != nil {
		return err
	}
	a.infra.kafka.Around = a.around
	var err error
	if a.tailer, err = kafka.NewTailer(a.infra.kafka); err != nil {
		return err
	}
	a.life.closing("tailer", a.tailer.Close)
	if a.live, err = kafka.NewLive(a.infra.kafka, a.vault); err != nil {
		return err
	}
	a.life.closing("live", a.live.Close)
	return nil
}

// around says what the read model of events has about a position. Whoever delivers or acts goes on where the database is
// away: the commits before were sound, and so will this one be. The publisher does not, see startPublisher.
func (a *App) around(ctx context.Context, partition int32, since int64, scope domain.Scope, position uint64) (streams.Around, error) {
	asked, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := events.New(a.db).Around(a.infra.kafka.Topics.CurrentEra())(asked, partition, since, scope, position)
	if err != nil {
		return streams.Around{Next: -1}, ctx.Err()
	}
	return found, nil
}

// checkProjections refuses a log that ends below what a read model has read, or that is of another era.
func (a *App) checkProjections(ctx context.Context) error {
	states, err := projections.List(ctx, a.infra.read)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(a.infra.kafka.Seeds...)}, a.infra.kafka.Options...)...)
	if err != nil {
		return fmt.Errorf("check the ends of the log: %w", err)
	}
	defer client.Close()
	byModel := map[string]map[int32]streams.Checkpoint{}
	for _, s := range states {
		if err := a.infra.kafka.Topics.CheckEra("the read model "+s.Projection, s.Partition, s.Checkpoint); err != nil {
			return err
		}
		if byModel[s.Projection] == nil {
			byModel[s.Projection] = map[int32]streams.Checkpoint{}
		}
		if s.Checkpoint.Next >= byModel[s.Projection][s.Partition].Next { // of its generations and lanes the furthest
			byModel[s.Projection][s.Partition] = s.Checkpoint
		}
	}
	var faults []error
	for model, stored := range byModel {
		faults = append(faults, a.infra.kafka.Topics.CheckEnds(ctx, kadm.NewClient(client), "the read model "+model, stored))
	}
	return errors.Join(faults...)
}

func (a *App) openModels() {
	pool, db := a.infra.read, a.db
	a.events = events.New(db, events.PartitionedBy(a.tailer.PartitionOf))
	a.threads, a.runs, a.devices, a.requests = threads.New(db), runs.New(db), devices.New(db), requests.New(db)
	a.effects, a.timers, a.erasures = openeffects.New(db), timers.New(db), erasures.New(db)
	a.waiter = projections.NewWaiter(pool, projections.WithLog(a.tailer, a.infra.kafka.Topics.CurrentEra()))
	a.life.start("waiter", a.waiter.Run)
}

// Projectors are those of all read models, and of the revisions before that a database may still have.
func Projectors(pool *pgxpool.Pool) []projections.Projector {
	db := projections.NewDB(pool)
	return []projections.Projector{
		events.New(db).Projector(), threads.New(db).Projector(), runs.New(db).Projector(), devices.New(db).Projector(),
		requests.New(db).Projector(), openeffects.New(db).Projector(), openeffects.New(db).Previous(), timers.New(db).Projector(), erasures.New(db).Projector(),
		runs.New(db).Previous(),
	}
}

// startAsking starts the writer, where the process has that role, and what sends it commands.
func (a *App) startAsking(ctx context.Context) error {
	var err error
	if a.config.has(RoleWriter) {
		if a.writer, err = kafka.NewWriter(kafka.WriterConfig{
			Config: a.logging(), Schema: a.schema, Keys: a.vault, States: a.states, History: a.events, Now: a.config.Now,
		}); err != nil {
			return err
		}
		a.life.start("writer", a.writer.Run)
	}
	a.pressure = pressure.New(a.measure())
	a.life.start("pressure", a.pressure.Run)
	if a.asker, err = kafka.NewAsker(kafka.AskerConfig{
		Config: a.infra.kafka, Schema: a.schema, Keys: a.vault, States: a.states, Now: a.config.Now, Admit: a.pressure.Admit,
	}); err != nil {
		return err
	}
	a.life.start("asker", a.asker.Run)
	a.accounts = accounts.New(accounts.Config{Vault: a.vault, Asker: a.asker, Master: a.infra.master, Now: a.config.Now})
	return a.asker.Ready(ctx)
}

// logging is the configuration of the parts whose own messages a person wants to see.
func (a *App) logging() kafka.Config {
	config := a.infra.kafka
	config.Log = a.log
	return config
}

func (a *App) startGateway() {
	if !a.config.has(RoleGateway) && !a.config.has(RoleAPI) {
		return
	}
	a.fanout = fanout.New(fanout.Config{
		Tailer: a.tailer, Live: a.live, Events: a.events, Keys: a.vault, Schema: a.schema, Sessions: a.accounts, Log: a.log, Now: a.config.Now,
		Metrics: a.registry, Most: a.config.CatchupMax,
	})
	a.life.start("fanout", a.fanout.Run)
	a.gateway = live.New(live.Config{
		Asker: a.asker, Fanout: a.fanout, Keys: a.vault, Schema: a.schema, Events: a.events,
		Effects: a.effects, Runs: a.runs, Requests: a.requests, Work: a.work, Waiter: a.waiter, Accounts: a.accounts, Admit: newAdmission(a.config).admit,
		Version: a.version, Now: a.config.Now, Log: a.log, Tracer: a.tracer, Metrics: a.registry,
	})
	a.life.start("gateway", a.gateway.Run)
}
