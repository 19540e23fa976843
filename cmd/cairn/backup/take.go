// Package backup copies an installation into a folder and puts one back: the log first and the vault last, so that the
// vault of a copy has the keys of everything in its log. Read models are not copied; they are filled from the log again.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Source is the installation that is copied. It may be at work meanwhile.
type Source struct {
	Kafka    kafka.Config
	VaultURL string
	Version  string // of the program
}

// ErrClosed is a log that was migrated elsewhere: nothing counts in it any more.
var ErrClosed = errors.New("this log was closed by `cairn log migrate`: what counts is the one it was copied to")

// Take writes a back-up into a new or empty folder.
func Take(ctx context.Context, dir string, s Source, progress *Progress) (Manifest, error) {
	m, err := take(ctx, dir, s, progress)
	if err != nil {
		return m, fmt.Errorf("back-up: %w", err)
	}
	return m, nil
}

func take(ctx context.Context, dir string, s Source, progress *Progress) (Manifest, error) {
	topics := s.Kafka.Topics
	m := Manifest{
		Format: Format, Version: s.Version, MadeAt: time.Now().UTC(),
		Prefix: cmp.Or(topics.Prefix, "cairn"), Partitions: topics.N(), Era: topics.CurrentEra(),
	}
	if err := emptyDir(dir); err != nil {
		return m, err
	}
	pool, err := pgxpool.New(ctx, s.VaultURL)
	if err != nil {
		return m, fmt.Errorf("connect to the vault: %w", err)
	}
	defer pool.Close()
	if m.Seal, err = vault.Sealed(ctx, pool); err != nil {
		return m, err
	}
	w := taking{Source: s, dir: dir, progress: progress}
	if err := w.topics(ctx, &m); err != nil {
		return m, err
	}
	if err := w.vault(ctx, pool, &m); err != nil {
		return m, err
	}
	return m, m.write(dir)
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: name a new folder for each back-up", dir)
	}
	return err
}

type taking struct {
	Source
	dir      string
	progress *Progress
}

func (w taking) topics(ctx context.Context, m *Manifest) error {
	client, err := dial(w.Kafka)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := w.Kafka.Topics
	logs, err := spans(ctx, client, topics.Log())
	if err != nil {
		return err
	}
	if n := int32(len(logs)); n != m.Partitions {
		return fmt.Errorf("%s has %d partitions, not %d: set CAIRN_PARTITIONS", topics.Log(), n, m.Partitions)
	}
	after := make([]streams.Acceptance, m.Partitions)
	for p := range m.Partitions {
		if start := logs[p].start; start > 0 {
			return fmt.Errorf("the first %d records of partition %d of %s are missing", start, p, topics.Log())
		}
		at := streams.NewAcceptance()
		r, err := w.records(ctx, "log", topics.Log(), p, 0, logs[p].end, func(r *kgo.Record) {
			if mark, err := kafka.MarkOf(r.Headers); err == nil {
				at, _ = at.Accept(mark)
			}
		})
		if err != nil {
			return err
		}
		if at.Closed {
			return ErrClosed
		}
		m.Log, after[p] = append(m.Log, r), at
	}
	commands, err := spans(ctx, client, topics.Commands())
	if err != nil {
		return err
	}
	parked, err := spans(ctx, client, topics.Parked())
	if err != nil {
		return err
	}
	for p := range m.Partitions {
		from, to := undecided(after[p], m.Era), commands[p].end
		if commands[p].start > from || to < from {
			to = from // decided and trimmed since: they are behind the copied log's end, and nobody was answered as of it
		}
		r, err := w.records(ctx, "commands", topics.Commands(), p, from, to, nil)
		if err != nil {
			return err
		}
		m.Commands = append(m.Commands, r)
		if r, err = w.records(ctx, "parked", topics.Parked(), p, parked[p].start, parked[p].end, nil); err != nil {
			return err
		}
		m.Parked = append(m.Parked, r)
	}
	return nil
}

// undecided is the offset of the first command that a writer of an era has not decided.
func undecided(a streams.Acceptance, era int) int64 {
	if a.After.Era != era {
		return 0
	}
	return a.After.Offset + 1
}

// records copies a range of a partition into a file.
func (w taking) records(ctx context.Context, what, topic string, partition int32, from, to int64, each func(*kgo.Record)) (Records, error) {
	out := Records{Partition: partition, From: from, Next: to}
	file, err := createFile(w.dir, fmt.Sprintf("%s/%05d.records.zst", what, partition))
	if err != nil {
		return out, err
	}
	d := newDigest()
	_, err = io.WriteString(file, recordsMagic)
	if err == nil {
		err = Scan(ctx, w.Kafka, topic, partition, from, to, func(r *kgo.Record) error {
			if each != nil {
				each(r)
			}
			if isFiller(r) {
				return nil
			}
			out.Count++
			w.progress.Step(fmt.Sprintf("%s, partition %d of %d, records", topic, partition+1, w.Kafka.Topics.N()), r.Offset-from, to-from)
			_, err := file.Write(d.add(r))
			return err
		})
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return out, err
	}
	out.Piece, out.Digest = file.piece(), d.sum.Sum(nil)
	return out, nil
}

func (w taking) vault(ctx context.Context, pool *pgxpool.Pool, m *Manifest) error {
	w.progress.Say("copying the vault")
	var err error
	if m.VaultVersion, err = migrations.Version(ctx, w.VaultURL, migrations.Vault); err != nil {
		return err
	}
	files := map[string]*fileWriter{}
	tables, err := vault.Dump(ctx, pool, func(t vault.Table) (io.WriteCloser, error) {
		file, err := createFile(w.dir, "vault/"+t.Name+".copy.zst")
		files[t.Name] = file
		return file, err
	})
	if err != nil {
		return err
	}
	for _, t := range tables {
		m.Vault = append(m.Vault, VaultTable{Table: t, Piece: files[t.Name].piece()})
	}
	m.Voids, err = vault.Voided(ctx, pool, m.Era)
	return err
}
