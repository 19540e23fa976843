package repair_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/cairn/backup/backuptest"
	"github.com/cairnhq/cairn/cmd/cairn/repair"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// machine is an installation on an embedded broker whose files can be put back.
type machine struct {
	t               *testing.T
	dir             string
	readURL, vaults string
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, dir: filepath.Join(t.TempDir(), "kafka"), readURL: pgtest.DSN(t, migrations.Read), vaults: pgtest.DSN(t, migrations.Vault)}
}

// on runs do with the broker up.
func (m *machine) on(do func(*backuptest.Installation)) {
	m.t.Helper()
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: m.dir})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Run("on", func(t *testing.T) { // an Installation ends with its test, and connections with it
		do(backuptest.On(t, kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds(), Topics: kafka.EmbeddedTopics()}, m.readURL, m.vaults))
	})
	if err := broker.Close(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) copied() string {
	m.t.Helper()
	to := filepath.Join(m.t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(m.dir)); err != nil {
		m.t.Fatal(err)
	}
	return to
}

// putBack replaces a part of the broker's files, or all, by those of a copy.
func (m *machine) putBack(copied, part string) {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, part)); err != nil {
		m.t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(m.dir, part), os.DirFS(filepath.Join(copied, part))); err != nil {
		m.t.Fatal(err)
	}
}

func looked(t *testing.T, i *backuptest.Installation, use func(*repair.Repairer, repair.Findings)) {
	t.Helper()
	i.Read.Reset()
	r, err := repair.Open(t.Context(), repair.Installation{Kafka: i.Kafka, ReadURL: i.ReadURL, Vault: i.Keys}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context()) //nolint:errcheck // a test
	f, err := r.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if use != nil {
		use(r, f)
	}
}

func judged(t *testing.T, i *backuptest.Installation) history.Verdict {
	t.Helper()
	var logs []*history.Log
	for range 2 {
		log, err := history.Read(t.Context(), i.Kafka)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, log)
	}
	v := history.Check(history.Evidence{Logs: logs})
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func rows(t *testing.T, i *backuptest.Installation, table string) (n int) {
	t.Helper()
	if err := i.Read.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A log that lost its end is refused at the start; a look names each event that is lost and changes nothing; a repair makes
// the read models what the log says, keeps the vault, pauses effects, and lets everything go on.
func TestWhatTheLogLostIsNamedAndTheRestGoesOn(t *testing.T) {
	m := newMachine(t)
	var kept, all int
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) {
			i.Register(ctx, asker, "ann")
			i.Post(ctx, asker, "ann", "kept", 3)
		})
		kept = rows(t, i, "events")
	})
	before := m.copied()
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) {
			i.Post(ctx, asker, "ann", "lost", 2)
			i.Register(ctx, asker, "bob")
			i.Post(ctx, asker, "bob", "lost", 1)
			scope := "user-ann" // and a rejection
			if _, err := asker.Ask(ctx, streams.Command{Scope: "user-ann", ID: streams.OwnID("user-ann", scope), Body: account.ChangeTier{On: account.On{Account: "ann"}, To: "none"}}); err == nil {
				t.Error("there is a tier none")
			}
		})
		all = rows(t, i, "events")
		looked(t, i, func(r *repair.Repairer, f repair.Findings) {
			if !f.Nothing() || len(f.Lost) > 0 || len(r.Feeds(f)) > 0 {
				t.Errorf("a whole log: %+v", f.Ahead)
			}
		})
	})
	m.putBack(before, ".")
	m.on(func(i *backuptest.Installation) {
		if err := i.Kafka.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "cairn repair") {
			t.Errorf("the start says: %v", err)
		}
		looked(t, i, func(r *repair.Repairer, f repair.Findings) {
			if len(f.Lost) != all-kept || f.Decisions != 5 || len(f.Ahead) != 3 {
				t.Errorf("%d lost events of %d, %d decisions, %d readers ahead: %v", len(f.Lost), all-kept, f.Decisions, len(f.Ahead), f.Ahead)
			}
			if feeds := r.Feeds(f); len(feeds) != 6 || !strings.Contains(feeds[0], ".feed.") {
				t.Errorf("the feeds to delete are %q", feeds)
			}
			for _, l := range f.Lost {
				var is bool
				if err := i.Read.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM events WHERE scope = $1 AND stream = $2 AND version = $3 AND position = $4)`,
					l.Scope, l.Stream, l.Version, l.Position).Scan(&is); err != nil || !is {
					t.Errorf("%+v is no event (%v)", l, err)
				}
			}
			if n := rows(t, i, "events"); n != all {
				t.Errorf("a look left %d events of %d", n, all)
			}
			done, err := r.Mend(t.Context(), f)
			if err != nil || done.Unfinished != 1 {
				t.Fatalf("%+v, %v", done, err)
			}
		})
	})
	m.on(func(i *backuptest.Installation) {
		if paused, _, err := work.New(i.Read).Paused(t.Context()); err != nil || !paused {
			t.Errorf("paused: %t, %v", paused, err)
		}
		i.Run(func(context.Context, streams.Asker) {})
		if n := rows(t, i, "events"); n != kept {
			t.Errorf("%d events after the repair, %d were kept", n, kept)
		}
		i.Run(func(ctx context.Context, asker streams.Asker) {
			i.Register(ctx, asker, "bob") // finished again, under the same id, with the key it had
			i.Post(ctx, asker, "ann", "lost", 2)
			i.Post(ctx, asker, "bob", "lost", 1)
		})
		if v := judged(t, i); v.Events != rows(t, i, "events") {
			t.Errorf("%d events in the log, %d in the read model", v.Events, rows(t, i, "events"))
		}
		looked(t, i, func(_ *repair.Repairer, f repair.Findings) {
			if !f.Nothing() {
				t.Errorf("after the repair: %v", f.Ahead)
			}
		})
	})
}

// A log that lost its end and grew again is longer than what the readers have read: it is told by what it says there.
func TestALogThatGrewOtherwiseIsFound(t *testing.T) {
	m := newMachine(t)
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Register(ctx, asker, "ann") })
	})
	before := m.copied()
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Post(ctx, asker, "ann", "lost", 2) })
	})
	m.putBack(before, ".")
	other := *m
	other.readURL = pgtest.DSN(t, migrations.Read) // one that does not know what was lost
	other.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Post(ctx, asker, "ann", "instead", 9) })
	})
	m.on(func(i *backuptest.Installation) {
		if err := i.Kafka.Ensure(t.Context()); err != nil {
			t.Errorf("its end is not below any checkpoint: %v", err)
		}
		looked(t, i, func(r *repair.Repairer, f repair.Findings) {
			if len(f.Ahead) != 3 || len(f.Lost) != rows(t, i, "events")-1 {
				t.Errorf("%v ahead, %d lost", f.Ahead, len(f.Lost))
			}
			if _, err := r.Mend(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		})
		i.Run(func(context.Context, streams.Asker) {})
		if v := judged(t, i); v.Events != rows(t, i, "events") {
			t.Errorf("%d events in the log, %d in the read model", v.Events, rows(t, i, "events"))
		}
	})
}

// Where the commands lost more than the log, their next offsets were decided once: new commands must not lie there.
func TestNewCommandsAreNotTakenForDecidedOnes(t *testing.T) {
	m := newMachine(t)
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Register(ctx, asker, "ann") })
	})
	before := m.copied()
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Post(ctx, asker, "ann", "kept", 5) })
	})
	m.putBack(before, "broker/partitions/cairn.commands-0")
	m.on(func(i *backuptest.Installation) {
		if err := i.Kafka.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "cairn repair") {
			t.Errorf("the start says: %v", err)
		}
		looked(t, i, func(r *repair.Repairer, f repair.Findings) {
			if f.Nothing() || len(f.Ahead) > 0 || f.Passed[0] != 6 {
				t.Errorf("ahead %v, passed %v", f.Ahead, f.Passed)
			}
			done, err := r.Mend(t.Context(), f)
			if err != nil || done.Padded != 5 || len(done.Tables) > 0 {
				t.Fatalf("%+v, %v", done, err)
			}
		})
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Post(ctx, asker, "ann", "new", 2) })
		judged(t, i)
	})
}

// Nothing is repaired under a process that works, and an empty log is no lost end.
func TestARepairRefuses(t *testing.T) {
	m := newMachine(t)
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Register(ctx, asker, "ann") })
		conn, err := i.Read.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = repair.Open(t.Context(), repair.Installation{Kafka: i.Kafka, ReadURL: i.ReadURL, Vault: i.Keys}, nil)
		if !errors.Is(err, repair.ErrRunning) {
			t.Errorf("beside another: %v", err)
		}
		conn.Release()
	})
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	m.on(func(i *backuptest.Installation) {
		bare := i.Kafka
		bare.Stored = nil
		if err := bare.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.Read.Reset()
		r, err := repair.Open(t.Context(), repair.Installation{Kafka: i.Kafka, ReadURL: i.ReadURL, Vault: i.Keys}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close(t.Context()) //nolint:errcheck // a test
		if _, err := r.Look(t.Context()); !errors.Is(err, repair.ErrEmpty) {
			t.Errorf("of an empty log: %v", err)
		}
	})
}

// Read models that went on to a later era are not ahead of the log that was migrated: nothing of theirs is emptied.
func TestAMigratedLogIsNotRepaired(t *testing.T) {
	m := newMachine(t)
	m.on(func(i *backuptest.Installation) {
		i.Run(func(ctx context.Context, asker streams.Asker) { i.Register(ctx, asker, "ann") })
		if _, err := i.Read.Exec(t.Context(), `UPDATE projection_checkpoints SET era = 2`); err != nil {
			t.Fatal(err)
		}
		i.Read.Reset()
		r, err := repair.Open(t.Context(), repair.Installation{Kafka: i.Kafka, ReadURL: i.ReadURL, Vault: i.Keys}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close(t.Context()) //nolint:errcheck // a test
		if _, err := r.Look(t.Context()); !errors.Is(err, kafka.ErrMigrated) || !strings.Contains(err.Error(), "settings of the new era") {
			t.Errorf("of a log that was migrated: %v", err)
		}
	})
}
