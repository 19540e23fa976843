package holdings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/cmd/cairn/holdings"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const ann, bob = domain.Scope("user-ann"), domain.Scope("user-bob")

// nobodys are the tables whose rows belong to no scope. A new table has a column scope, or stands here.
var nobodys = []string{
	"cairn_migrations", "effects_switch", "log_ends", "policy_begins", "policy_era", "policy_places", "processes", "projection_checkpoints",
	"projection_generations", "projection_rebuilds", "projection_skips", "projections", "vault", "voids", "workers", "writer_checkpoints",
}

// TestNoTableIsForgotten: every table of both databases is looked at for a scope, or is known to belong to nobody.
func TestNoTableIsForgotten(t *testing.T) {
	for name, pool := range map[string]*pgxpool.Pool{"read": pgtest.Read(t), "vault": pgtest.Vault(t)} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		known, err := holdings.ScopedTables(t.Context(), tx)
		if err != nil {
			t.Fatal(err)
		}
		if name == "vault" {
			shown, err := vault.Shown(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range shown {
				if table.By != "" {
					known = append(known, table.Name)
				}
			}
		}
		rows, err := tx.Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'm', 'f') AND relnamespace = current_schema()::regnamespace`)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(all) < 8 {
			t.Fatalf("%s has the tables %v (%v)", name, all, err)
		}
		for _, table := range all {
			if !slices.Contains(known, table) && !slices.Contains(nobodys, table) {
				t.Errorf("%s: whose are the rows of %s? Give it a column scope, or write it down here as nobody's", name, table)
			}
			if slices.Contains(known, table) && slices.Contains(nobodys, table) {
				t.Errorf("%s: %s has a scope and stands here as nobody's", name, table)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// stage is a log with two users, and databases with a row of each in every table that has a scope.
type stage struct {
	t      *testing.T
	source holdings.Source
	tables []string
	asker  streams.Asker
}

func newStage(t *testing.T) *stage {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	check(t, err)
	config := kafkatest.Broker(t) // one partition: a scope must be told from its neighbour
	check(t, config.Ensure(t.Context()))
	s := &stage{t: t, source: holdings.Source{Read: pgtest.Read(t), Vault: pgtest.Vault(t), Kafka: config, Schema: schema}}
	keys := vault.Open(s.source.Vault, bytes.Repeat([]byte{7}, vault.MasterKeySize), time.Now)
	s.source.Keys = keys
	states := memory.NewStates()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states, Now: time.Now})
	check(t, err)
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return writer.Run(ctx) })
	group.Go(func() error { return asker.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	check(t, asker.Ready(t.Context()))
	s.asker = asker
	for _, scope := range []domain.Scope{ann, bob} {
		s.talk(scope)
		s.fill(scope)
	}
	return s
}

// talk is what a user does: a thread, named, and a wish that is refused.
func (s *stage) talk(scope domain.Scope) {
	s.t.Helper()
	on := thread.On{Thread: uuid.NewString()}
	for _, body := range []domain.Command{
		thread.Open{On: on}, thread.Rename{On: on, Title: thread.Title{Text: "the secret plan of " + string(scope)}},
		thread.Cancel{On: on, RunID: "no-such-run"},
	} {
		_, err := s.asker.Ask(s.t.Context(), streams.Command{Scope: scope, ID: uuid.NewString(), Actor: domain.Actor{Kind: domain.ActorUser, ID: "x"}, Body: body})
		var no *domain.Rejection
		if err != nil && !errors.As(err, &no) {
			s.t.Fatal(err)
		}
	}
}

// fill puts a row into every table that has a scope.
func (s *stage) fill(scope domain.Scope) {
	s.t.Helper()
	tx, err := s.source.Read.Begin(s.t.Context())
	check(s.t, err)
	s.tables, err = holdings.ScopedTables(s.t.Context(), tx)
	check(s.t, err)
	for _, table := range s.tables {
		rows, err := tx.Query(s.t.Context(), `SELECT a.attname, CASE WHEN a.attname = 'scope' THEN quote_literal($2) ELSE
				CASE format_type(a.atttypid, NULL) WHEN 'text' THEN quote_literal('x') WHEN 'bytea' THEN '''{"of":1}''' WHEN 'boolean' THEN 'false'
				WHEN 'timestamp with time zone' THEN 'now()' ELSE '1' END END
			FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`, table, string(scope))
		check(s.t, err)
		var columns, values []string
		var column, value string
		_, err = pgx.ForEachRow(rows, []any{&column, &value}, func() error {
			columns, values = append(columns, column), append(values, value)
			return nil
		})
		check(s.t, err)
		_, err = tx.Exec(s.t.Context(), fmt.Sprintf(`INSERT INTO %s (%s) VALUES (%s)`, table, strings.Join(columns, ", "), strings.Join(values, ", ")))
		check(s.t, err)
	}
	check(s.t, tx.Commit(s.t.Context()))
	user := strings.TrimPrefix(string(scope), "user-")
	_, err = s.source.Vault.Exec(s.t.Context(), `INSERT INTO credentials VALUES ($1, $2, 'the hash of a password', now(), 'free', 0, now())`, user, []byte("digest of "+user))
	check(s.t, err)
	_, err = s.source.Vault.Exec(s.t.Context(), `INSERT INTO tickets VALUES ($2, $1, now(), now())`, user, []byte("ticket of "+user))
	check(s.t, err)
}

// TestEverythingOfAScopeIsFound, and nothing of another's: counts and files agree, content is opened, secrets are not there.
func TestEverythingOfAScopeIsFound(t *testing.T) {
	s := newStage(t)
	shown, err := holdings.Show(t.Context(), s.source, ann)
	check(t, err)
	counts := map[string]int64{}
	for _, h := range shown {
		counts[h.In+" "+h.Name] = h.Count
	}
	for _, table := range s.tables {
		if counts["table "+table] != 1 {
			t.Errorf("of the table %s %d rows are found", table, counts["table "+table])
		}
	}
	topics := s.source.Kafka.Topics
	for name, want := range map[string]int64{
		"vault credentials": 1, "vault scope_keys": 1, "vault data_keys": 1, "vault tickets": 1, "log events": 2, "log rejections": 1,
		"topic " + topics.Commands(): 3, "topic " + topics.Log(): 3, "topic " + topics.Parked(): 0,
	} {
		if counts[name] != want {
			t.Errorf("%s holds %d, wanted %d", name, counts[name], want)
		}
	}
	dir := filepath.Join(t.TempDir(), "export")
	m, err := holdings.Export(t.Context(), s.source, ann, dir, vault.Secrets(), time.Now())
	check(t, err)
	if len(m.Files) != len(shown) || !m.Opened {
		t.Fatalf("%d files of %d places, opened %v", len(m.Files), len(shown), m.Opened)
	}
	var whole bytes.Buffer
	for i, f := range m.Files {
		text, err := os.ReadFile(filepath.Join(dir, f.File))
		check(t, err)
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		if n := len(lines); len(text) > 0 && int64(n) != f.Count || shown[i].Count != f.Count {
			t.Errorf("%s has %d lines, the manifest says %d, the count was %d", f.File, n, f.Count, shown[i].Count)
		}
		for _, line := range lines {
			if len(text) > 0 && !json.Valid(line) {
				t.Errorf("%s: no JSON: %s", f.File, line)
			}
		}
		whole.Write(text)
	}
	for _, not := range []string{string(bob), "digest of", "ticket of", "the hash of a password", "\\\\x646967657374"} {
		if strings.Contains(whole.String(), not) {
			t.Errorf("the export holds %q", not)
		}
	}
	if n := strings.Count(whole.String(), "the secret plan of user-ann"); n != 2 {
		t.Errorf("the title stands %d times in the export, wanted in the event and in the command", n)
	}
	if _, err := holdings.Export(t.Context(), s.source, ann, dir, nil, time.Now()); !errors.Is(err, holdings.ErrNotEmpty) {
		t.Errorf("a second export into the same folder: %v", err)
	}
}

// TestAScopeWithoutKeysIsExported sealed, and one that was erased says so.
func TestAScopeWithoutKeysIsExported(t *testing.T) {
	s := newStage(t)
	sealed := s.source
	sealed.Keys = nil
	for _, c := range []struct {
		source holdings.Source
		want   string
	}{{sealed, `"[sealed]"`}, {s.source, `"[erased]"`}} {
		if c.source.Keys != nil {
			keys := vault.Open(s.source.Vault, bytes.Repeat([]byte{7}, vault.MasterKeySize), time.Now)
			check(t, keys.Erase(t.Context(), "ann"))
			c.source.Keys = keys
		}
		dir := filepath.Join(t.TempDir(), "export")
		_, err := holdings.Export(t.Context(), c.source, ann, dir, nil, time.Now())
		check(t, err)
		text, err := os.ReadFile(filepath.Join(dir, "log", "events.jsonl"))
		check(t, err)
		if !strings.Contains(string(text), c.want) || strings.Contains(string(text), "secret plan") {
			t.Errorf("wanted %s: %s", c.want, text)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
