package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Target is the empty installation that a back-up is put into. Nothing else may work on it meanwhile.
type Target struct {
	Kafka             kafka.Config
	ReadURL, VaultURL string
	Master            []byte
}

// Restored says what was done.
type Restored struct {
	Found
	vault.Agreed
	Took time.Duration
}

// ErrNotEmpty is a target that has something in it.
var ErrNotEmpty = errors.New("a back-up is restored into an empty place only")

// Restore checks a back-up and puts it back. The vault comes last, in the transaction that also applies the erasures of
// the log again: a restore that breaks off leaves a log without a vault, which no start accepts. Effects are paused then.
func Restore(ctx context.Context, dir string, t Target, progress *Progress) (Restored, error) {
	began := time.Now()
	found, err := Check(ctx, dir, progress)
	if err != nil {
		return Restored{}, err
	}
	done, err := Put(ctx, dir, found, t, progress)
	done.Took = time.Since(began)
	return done, err
}

// Put is Restore of a back-up that Check has read.
func Put(ctx context.Context, dir string, found Found, t Target, progress *Progress) (Restored, error) {
	began := time.Now()
	w := restoring{Target: t, dir: dir, found: found, progress: progress}
	agreed, err := w.run(ctx)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	return Restored{Found: found, Agreed: agreed, Took: time.Since(began)}, nil
}

type restoring struct {
	Target
	dir      string
	found    Found
	progress *Progress
}

func (w restoring) run(ctx context.Context) (vault.Agreed, error) {
	m := w.found.Manifest
	if err := w.fits(ctx); err != nil {
		return vault.Agreed{}, err
	}
	if err := w.Kafka.Ensure(ctx); err != nil {
		return vault.Agreed{}, err
	}
	topics := w.Kafka.Topics
	for p := range m.Partitions {
		if err := w.fill(ctx, topics.Log(), m.Log[p]); err != nil {
			return vault.Agreed{}, err
		}
		if _, err := Pad(ctx, w.Kafka, topics.Commands(), p, undecided(w.found.Log.At(p).Acceptance, m.Era)); err != nil {
			return vault.Agreed{}, err
		}
		if err := w.fill(ctx, topics.Commands(), m.Commands[p]); err != nil {
			return vault.Agreed{}, err
		}
		if err := w.fill(ctx, topics.Parked(), m.Parked[p]); err != nil {
			return vault.Agreed{}, err
		}
	}
	for p := range m.Partitions {
		// Whoever led when the copy was made leads no more, even if its process is still somewhere.
		if err := Fence(ctx, w.Kafka, p, w.found.Log.At(p)); err != nil {
			return vault.Agreed{}, err
		}
	}
	if err := w.pause(ctx); err != nil {
		return vault.Agreed{}, err
	}
	return w.vault(ctx)
}

// Fits refuses topics and a master key that the back-up does not go with. It looks at nothing but them.
func (m Manifest) Fits(topics kafka.Topics, master []byte) error {
	if err := m.Seal.Opens(master); err != nil {
		return err
	}
	if topics.N() != m.Partitions {
		return fmt.Errorf("the back-up has %d partitions and the target %d: set CAIRN_PARTITIONS=%d (`cairn log migrate` makes more of them afterwards)", m.Partitions, topics.N(), m.Partitions)
	}
	if topics.CurrentEra() != m.Era {
		return fmt.Errorf("the back-up is of era %d and the target of era %d: set CAIRN_ERA=%d, here and where it will run", m.Era, topics.CurrentEra(), m.Era)
	}
	return nil
}

// fits refuses a target that the back-up can't go into.
func (w restoring) fits(ctx context.Context) error {
	m, topics := w.found.Manifest, w.Kafka.Topics
	if err := m.Fits(topics, w.Master); err != nil {
		return err
	}
	client, err := dial(w.Kafka)
	if err != nil {
		return err
	}
	defer client.Close()
	names, err := used(ctx, client, strings.TrimSuffix(topics.Log(), ".log"))
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: there are records in %s", ErrNotEmpty, strings.Join(names, ", "))
	}
	for url, table := range map[string]string{w.VaultURL: "vault", w.ReadURL: "projection_checkpoints"} {
		if err := emptyTable(ctx, url, table); err != nil {
			return err
		}
	}
	return nil
}

func emptyTable(ctx context.Context, url, table string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	var there, rows bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || !there {
		return err
	}
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+table+`)`).Scan(&rows); err != nil {
		return err
	}
	if rows {
		return fmt.Errorf("%w: there are rows in table %s", ErrNotEmpty, table)
	}
	return nil
}

// fill writes the records of a file to where they were, and reads them back.
func (w restoring) fill(ctx context.Context, topic string, r Records) error {
	if r.Next == 0 {
		return nil
	}
	f, err := openFiller(w.Kafka, topic, r.Partition)
	if err != nil {
		return err
	}
	found, err := spans(ctx, f.client, topic)
	f.next = found[r.Partition].end
	if err == nil {
		err = r.each(w.dir, func(record *kgo.Record) error {
			w.progress.Step(fmt.Sprintf("restoring %s, partition %d of %d, records", topic, r.Partition+1, w.Kafka.Topics.N()), record.Offset-r.From, r.Next-r.From)
			return f.put(ctx, record)
		})
	}
	if err == nil {
		err = f.fillTo(ctx, r.Next)
	}
	if err = errors.Join(err, f.close(ctx)); err != nil {
		return err
	}
	return readBack(ctx, w.Kafka, topic, r)
}

// Fence appends a lead after a checkpoint at a partition's end, so that nobody's older lead counts any more.
func Fence(ctx context.Context, config kafka.Config, partition int32, at streams.Checkpoint) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("drawing a writer id: %w", err)
	}
	lead := codec.Lead{
		Kind: codec.KindLead, Era: config.Topics.CurrentEra(), Lead: at.Acceptance.Lead + 1, Writer: hex.EncodeToString(id),
		At: time.Now().UTC().Format(streams.TimeLayout),
	}
	value, err := codec.EncodeLead(lead)
	if err != nil {
		return err
	}
	f, err := openFiller(config, config.Topics.Log(), partition)
	if err != nil {
		return err
	}
	f.next = at.Next
	err = f.append(ctx, &kgo.Record{Value: value, Headers: kafka.LeadHeaders(streams.Mark{
		Sort: streams.SortLead, Era: lead.Era, Lead: lead.Lead, Writer: lead.Writer,
	})})
	return errors.Join(err, f.close(ctx))
}

// pause makes the read models' database and lets no effect begin: the world outside may know of what the copy does not.
func (w restoring) pause(ctx context.Context) error {
	if err := migrations.Up(ctx, w.ReadURL, migrations.Read); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, w.ReadURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	return work.New(pool).Pause(ctx)
}

func (w restoring) vault(ctx context.Context) (vault.Agreed, error) {
	w.progress.Say("restoring the vault")
	m := w.found.Manifest
	if err := migrations.UpTo(ctx, w.VaultURL, migrations.Vault, m.VaultVersion); err != nil {
		return vault.Agreed{}, err
	}
	pool, err := pgxpool.New(ctx, w.VaultURL)
	if err != nil {
		return vault.Agreed{}, err
	}
	defer pool.Close()
	tables, pieces := make([]vault.Table, len(m.Vault)), map[string]Piece{}
	for i, t := range m.Vault {
		tables[i], pieces[t.Name] = t.Table, t.Piece
	}
	agreed, err := vault.Load(ctx, pool, tables, func(t vault.Table) (io.ReadCloser, error) {
		return openFile(w.dir, pieces[t.Name])
	}, w.found.Log.Facts(m.Era), time.Now().UTC())
	if err != nil {
		return vault.Agreed{}, err
	}
	return agreed, migrations.Up(ctx, w.VaultURL, migrations.Vault)
}
