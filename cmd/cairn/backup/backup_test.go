package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/cmd/cairn/backup/backuptest"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// copied is an installation and a copy of it.
type copied struct {
	old *backuptest.Installation
	dir string
}

// What is true of a back-up: each is a law of its own, on one installation, which is populated once.
func TestBackup(t *testing.T) {
	old := populated(t)
	c := copied{old: old, dir: taken(t, old)}
	t.Run("a restored log is the same and goes on", c.theSameAndGoesOn)
	t.Run("erasures of the log are applied again", c.erasuresAreAppliedAgain)
	t.Run("effects are paused after a restore", c.effectsArePaused)
	t.Run("a damaged copy is refused", c.damagedIsRefused)
	t.Run("an incomplete manifest is refused", c.incompleteIsRefused)
	t.Run("a restore wants an empty place that fits", c.anEmptyPlaceThatFits)
	t.Run("a restore that breaks off is no installation", c.brokenOffIsNoInstallation)
	t.Run("the vault of a copy agrees with its log", c.theVaultAgreesWithItsLog)
}

// populated is an installation of three partitions with eight accounts, content, an account whose erasure broke off
// between the log and the vault, and one that moved to another tier.
func populated(t *testing.T) *backuptest.Installation {
	t.Helper()
	i := backuptest.New(t, 3)
	i.Run(func(ctx context.Context, asker streams.Asker) {
		for _, user := range []string{"ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"} {
			i.Register(ctx, asker, user)
			i.Post(ctx, asker, user, "a secret of "+user, 3)
		}
		i.Ask(ctx, asker, "cat", "erase", account.Erase{On: account.On{Account: "cat"}})
		answer := i.Ask(ctx, asker, "dan", "tier", account.ChangeTier{On: account.On{Account: "dan"}, To: account.Pro})
		if err := i.Keys.SetTier(ctx, "dan", account.Pro, answer.Position.Position); err != nil {
			t.Fatal(err)
		}
	})
	return i
}

func taken(t *testing.T, i *backuptest.Installation) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if _, err := backup.Take(t.Context(), dir, backup.Source{Kafka: i.Kafka, VaultURL: i.VaultURL, Version: "test"}, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func restored(t *testing.T, dir string, i *backuptest.Installation) backup.Restored {
	t.Helper()
	done, err := backup.Restore(t.Context(), dir, backup.Target{Kafka: i.Kafka, ReadURL: i.ReadURL, VaultURL: i.VaultURL, Master: i.Master}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func read(t *testing.T, i *backuptest.Installation) *history.Log {
	t.Helper()
	log, err := history.Read(t.Context(), i.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// What is restored is the same log, record for record at the same offsets; it goes on from there, and what was answered
// before is answered the same.
func (c copied) theSameAndGoesOn(t *testing.T) {
	old := c.old
	before := read(t, old)
	fresh := backuptest.New(t, 3)
	done := restored(t, c.dir, fresh)
	if len(done.Log.Defects) > 0 || done.Log.Accounts() != 8 {
		t.Fatalf("%d accounts, defects: %q", done.Log.Accounts(), done.Log.Defects)
	}
	recorder := history.New()
	fresh.Run(func(ctx context.Context, asker streams.Asker) {
		answer := fresh.Ask(ctx, asker, "dan", "tier", account.ChangeTier{On: account.On{Account: "dan"}, To: account.Pro})
		if !answer.Repeated {
			t.Error("a command decided before the copy is decided again")
		}
		fresh.Post(ctx, asker, "ann", "after the restore", 2)
	})
	after, again := read(t, fresh), read(t, fresh)
	for p, entries := range before.Partitions {
		for k, e := range entries {
			if got := after.Partitions[p][k]; !bytes.Equal(got.Digest[:], e.Digest[:]) || got.Offset != e.Offset || got.Counts != e.Counts {
				t.Fatalf("partition %d record %d is not the one that was copied", p, k)
			}
		}
	}
	verdict := history.Check(history.Evidence{
		History: recorder, Logs: []*history.Log{after, again}, Invoked: func(*streams.Commit) bool { return false },
	})
	if err := verdict.Err(); err != nil {
		t.Fatal(err)
	}
	if verdict.Events <= int(done.Log.Events) {
		t.Fatal("nothing was written after the restore")
	}
}

// An erasure that the log has is done again although the vault of the copy has the keys, and before anybody could open
// anything; all other content opens.
func (c copied) erasuresAreAppliedAgain(t *testing.T) {
	old := c.old
	if _, err := vault.Open(old.Vault, old.Master, time.Now).Current(t.Context(), "user-cat"); err != nil {
		t.Fatalf("the vault that is copied should still have cat's key: %v", err)
	}
	fresh := backuptest.New(t, 3)
	done := restored(t, c.dir, fresh)
	if done.Erased != 1 {
		t.Fatalf("%d erasures were applied", done.Erased)
	}
	if _, err := fresh.Keys.Current(t.Context(), "user-cat"); !errors.Is(err, streams.ErrScopeErased) {
		t.Fatalf("cat's key: %v", err)
	}
	if _, err := fresh.Keys.ByUser(t.Context(), "cat"); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("cat may log in: %v", err)
	}
	var keys, opened int
	for p, end := range read(t, fresh).Ends {
		if err := backup.Scan(t.Context(), fresh.Kafka, fresh.Kafka.Topics.Log(), int32(p), 0, end, func(r *kgo.Record) error {
			commit, err := codec.DecodeCommit(r.Value)
			if err != nil {
				return nil // a lead
			}
			for _, event := range commit.Events {
				if event.Sealed == nil || event.Scope == "user-cat" {
					continue
				}
				keys++
				if text, _, err := fresh.Schema.Text(t.Context(), fresh.Keys, event); err == nil && strings.Contains(string(text), "a secret of") {
					opened++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if keys == 0 || keys != opened {
		t.Fatalf("%d of %d contents open", opened, keys)
	}
}

// Effects rest after a restore until a person lets them go on.
func (c copied) effectsArePaused(t *testing.T) {
	fresh := backuptest.New(t, 3)
	restored(t, c.dir, fresh)
	if paused, _, err := work.New(fresh.Read).Paused(t.Context()); err != nil || !paused {
		t.Fatalf("paused: %t, %v", paused, err)
	}
}

// The vault is copied after the log: what it knows that the log does not is set back to what the log has.
func (c copied) theVaultAgreesWithItsLog(t *testing.T) {
	old, dir := c.old, c.dir
	old.Run(func(ctx context.Context, asker streams.Asker) {
		old.Register(ctx, asker, "ida")
		answer := old.Ask(ctx, asker, "dan", "tier again", account.ChangeTier{On: account.On{Account: "dan"}, To: account.Team})
		if err := old.Keys.SetTier(ctx, "dan", account.Team, answer.Position.Position); err != nil {
			t.Fatal(err)
		}
	})
	fresh := backuptest.New(t, 3)
	done := restored(t, mixed(t, dir, taken(t, old)), fresh)
	if done.Unfinished != 1 || done.Tiers != 1 {
		t.Fatalf("%d unfinished, %d tiers", done.Unfinished, done.Tiers)
	}
	if c, err := fresh.Keys.ByUser(t.Context(), "ida"); err != nil || c.Registered {
		t.Fatalf("ida: %+v, %v", c, err)
	}
	if c, err := fresh.Keys.ByUser(t.Context(), "dan"); err != nil || c.Tier != account.Pro || !c.Registered {
		t.Fatalf("dan: %+v, %v", c, err)
	}
	fresh.Run(func(ctx context.Context, asker streams.Asker) { fresh.Register(ctx, asker, "ida") })
}

// mixed is a copy with the log of one and the vault of another, as one is that was made while much happened.
func mixed(t *testing.T, logs, vaults string) string {
	t.Helper()
	m, err := backup.Read(logs)
	if err != nil {
		t.Fatal(err)
	}
	later, err := backup.Read(vaults)
	if err != nil {
		t.Fatal(err)
	}
	m.Vault = later.Vault
	if err := os.RemoveAll(filepath.Join(logs, "vault")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(vaults, "vault"), filepath.Join(logs, "vault")); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "manifest.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return logs
}

// A manifest that was cut short, or in which a list is, is no back-up.
func (c copied) incompleteIsRefused(t *testing.T) {
	whole, err := backup.Read(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{}
	for name, cut := range map[string]func(*backup.Manifest){
		"no commands":    func(m *backup.Manifest) { m.Commands = nil },
		"short commands": func(m *backup.Manifest) { m.Commands = m.Commands[1:] },
		"no parked":      func(m *backup.Manifest) { m.Parked = nil },
		"no vault":       func(m *backup.Manifest) { m.Vault = nil },
		"short vault":    func(m *backup.Manifest) { m.Vault = m.Vault[1:] },
		"another order":  func(m *backup.Manifest) { m.Parked = []backup.Records{m.Parked[1], m.Parked[0], m.Parked[2]} },
	} {
		m := whole
		cut(&m)
		if texts[name], err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	}
	if texts["cut"], err = json.Marshal(whole); err != nil {
		t.Fatal(err)
	}
	texts["cut"] = texts["cut"][:len(texts["cut"])/2]
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Check(t.Context(), dir, nil); !errors.Is(err, backup.ErrNoBackup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file of which one byte is another is found before anything is written, and so is one that is missing.
func (c copied) damagedIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hurt")
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	fresh := backuptest.New(t, 3)
	target := backup.Target{Kafka: fresh.Kafka, ReadURL: fresh.ReadURL, VaultURL: fresh.VaultURL, Master: fresh.Master}
	var files []string
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != "manifest.json" {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		hurt := bytes.Clone(was)
		hurt[len(hurt)/2] ^= 1
		for _, now := range [][]byte{hurt, was[:len(was)-1], nil} {
			if err := os.WriteFile(path, now, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Restore(t.Context(), dir, target, nil); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, target, nil); !errors.Is(err, backup.ErrNoBackup) {
		t.Fatalf("without a manifest: %v", err)
	}
	if err := fresh.Kafka.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := read(t, fresh).Ends; end[0]+end[1]+end[2] != 0 {
		t.Fatalf("a refused restore wrote %v records", end)
	}
}

// Restoring over something, with another master key, partition count or era is refused, and changes nothing.
func (c copied) anEmptyPlaceThatFits(t *testing.T) {
	old, dir := c.old, c.dir
	for name, change := range map[string]struct {
		change func(*backup.Target)
		says   string
	}{
		"the log itself": {func(*backup.Target) {}, "empty place only"},
		"another vault":  {func(b *backup.Target) { b.Kafka.Topics.Prefix = "other" }, "empty place only"},
		"another key":    {func(b *backup.Target) { b.Master = bytes.Repeat([]byte{9}, 32) }, vault.ErrMasterWrong.Error()},
		"partitions":     {func(b *backup.Target) { b.Kafka.Topics.Partitions = 4 }, "CAIRN_PARTITIONS=3"},
		"era":            {func(b *backup.Target) { b.Kafka.Topics.Era = 2 }, "CAIRN_ERA=1"},
	} {
		target := backup.Target{Kafka: old.Kafka, ReadURL: old.ReadURL, VaultURL: old.VaultURL, Master: old.Master}
		change.change(&target)
		if _, err := backup.Restore(t.Context(), dir, target, nil); err == nil || !strings.Contains(err.Error(), change.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := backup.Take(t.Context(), dir, backup.Source{Kafka: old.Kafka, VaultURL: old.VaultURL}, nil); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a copy over a copy: %v", err)
	}
}

// A restore that breaks off leaves a log without a vault, which no program takes for an installation.
func (c copied) brokenOffIsNoInstallation(t *testing.T) {
	fresh := backuptest.New(t, 3)
	if _, err := fresh.Vault.Exec(t.Context(), `ALTER TABLE credentials ADD CHECK (user_id <> 'hal')`); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), c.dir, backup.Target{
		Kafka: fresh.Kafka, ReadURL: fresh.ReadURL, VaultURL: fresh.VaultURL, Master: fresh.Master,
	}, nil); err == nil {
		t.Fatal("the vault took it")
	}
	if isFresh, err := vault.Fresh(t.Context(), fresh.Vault); err != nil || !isFresh {
		t.Fatalf("a part of the vault is there (%v)", err)
	}
	var scope domain.Scope
	if err := fresh.Vault.QueryRow(t.Context(), `SELECT coalesce(min(scope), '') FROM scope_keys`).Scan(&scope); err != nil || scope != "" {
		t.Fatalf("the key of %s is there (%v)", scope, err)
	}
}

// A copy of the vault is whole: nothing in it counts by a sequence, which rows would not carry.
func TestNothingInTheVaultCountsByASequence(t *testing.T) {
	var n int
	if err := pgtest.Vault(t).QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relnamespace = current_schema()::regnamespace
		AND relname NOT LIKE 'cairn_migrations%'`).Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d sequences (%v)", n, err)
	}
}
