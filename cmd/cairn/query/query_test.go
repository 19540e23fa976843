package query_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/cairn/query"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func options() query.Options { return query.Options{Timeout: 10 * time.Second, Rows: 100} }

// TestNothingIsChanged: whatever is asked, the database is the same afterwards.
func TestNothingIsChanged(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `CREATE TABLE kept (n int); INSERT INTO kept VALUES (1);
		CREATE FUNCTION sly() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE kept SET n = 2; RETURN 1; END $$`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE kept SET n = 2`, `DELETE FROM kept`, `INSERT INTO kept VALUES (2)`, `DROP TABLE kept`, `TRUNCATE kept`,
		`WITH w AS (UPDATE kept SET n = 2 RETURNING n) SELECT * FROM w`,
		`SELECT 1; UPDATE kept SET n = 2`, `SELECT n FROM kept; COMMIT; UPDATE kept SET n = 2`, `EXPLAIN ANALYZE UPDATE kept SET n = 2`,
		`SELECT sly()`, `SELECT set_config('transaction_read_only', 'off', false), sly()`, `COMMIT`, `CREATE TEMP TABLE t (n int)`,
		`COPY kept TO PROGRAM 'cat'`, `SELECT pg_read_file('/etc/hostname')`, `DO $$ BEGIN UPDATE kept SET n = 2; END $$`, ``, `SELEC 1`,
	} {
		if r, err := query.Ask(t.Context(), dsn, sql, options()); err == nil {
			t.Errorf("%s: answered %v", sql, r.Rows)
		}
	}
	var n, rows int
	if err := pool.QueryRow(t.Context(), `SELECT min(n), count(*) FROM kept`).Scan(&n, &rows); err != nil || n != 1 || rows != 1 {
		t.Fatalf("the table has %d rows, the least %d (%v)", rows, n, err)
	}
}

// TestAQuestionIsBounded in time and in rows, and says so.
func TestAQuestionIsBounded(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	began := time.Now()
	if _, err := query.Ask(t.Context(), dsn, `SELECT pg_sleep(60)`, query.Options{Timeout: 50 * time.Millisecond}); !errors.Is(err, query.ErrSlow) {
		t.Fatalf("a slow question: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("it was ended after %s", took)
	}
	for _, c := range []struct {
		most, rows int
		more       bool
	}{{4, 4, true}, {5, 5, false}, {0, 5, false}} {
		r, err := query.Ask(t.Context(), dsn, `SELECT * FROM generate_series(1, 5);`, query.Options{Timeout: 10 * time.Second, Rows: c.most})
		if err != nil || r.More != c.more || len(r.Rows) != c.rows {
			t.Errorf("of 5 rows at most %d: %d, more %v (%v)", c.most, len(r.Rows), r.More, err)
		}
	}
}

// TestAnswersAreJSON: each type is what a program expects.
func TestAnswersAreJSON(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	r, err := query.Ask(t.Context(), dsn, `SELECT 1 AS n, true AS b, NULL::text AS none, 'a<b>"c' AS text, '{"k": [1]}'::jsonb AS doc,
		convert_to('{"x":1}', 'UTF8') AS bytes, '\x00ff'::bytea AS raw, 'NaN'::float8 AS nan, 1.50::numeric AS num, ARRAY[1,2] AS list`, options())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Lines(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"n":1,"b":true,"none":null,"text":"a<b>\"c","doc":{"k": [1]},"bytes":"{\"x\":1}","raw":"\\x00ff","nan":"NaN","num":1.50,"list":"{1,2}"}`
	var got, expected map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	for name, value := range expected {
		a, _ := json.Marshal(value)
		b, _ := json.Marshal(got[name])
		if !bytes.Equal(a, b) {
			t.Errorf("%s is %s, wanted %s", name, b, a)
		}
	}
	if strings.Contains(out.String(), `\u003c`) {
		t.Errorf("escaped for HTML: %s", out.String())
	}
}

// TestTheVaultIsShownOnlyWhenAsked, and then without what opens anything.
func TestTheVaultIsShownOnlyWhenAsked(t *testing.T) {
	dsn, vaults := pgtest.DSN(t, migrations.Read), pgtest.Vault(t)
	if _, err := vaults.Exec(t.Context(), `INSERT INTO scope_keys VALUES ('user-ann', '\x736563726574', NULL, NULL, now());
		INSERT INTO data_keys VALUES ('user-ann', 1, '\x736563726574', now());
		INSERT INTO credentials VALUES ('ann', '\x736563726574', 'secret', now(), 'free', 0, now())`); err != nil {
		t.Fatal(err)
	}
	tables, err := vault.Shown(t.Context(), vaults)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if _, err := query.Ask(t.Context(), dsn, `SELECT * FROM `+table.Name, options()); table.Name != "cairn_migrations" && !errors.Is(err, query.ErrVault) {
			t.Errorf("%s without being asked to: %v", table.Name, err)
		}
	}
	asked := options()
	asked.Vault = vaults
	for _, sql := range []string{
		`SELECT * FROM credentials c JOIN scope_keys k ON k.scope = 'user-' || c.user_id`, `SELECT * FROM data_keys`,
		`SELECT query_to_xml('SELECT * FROM data_keys', true, true, '')`, `SELECT d FROM data_keys d`,
	} {
		r, err := query.Ask(t.Context(), dsn, sql, asked)
		if err != nil || len(r.Rows) != 1 {
			t.Fatalf("%s: %d rows (%v)", sql, len(r.Rows), err)
		}
		var out bytes.Buffer
		if err := r.Lines(&out); err != nil || strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "736563726574") {
			t.Errorf("%s: %s (%v)", sql, out.String(), err)
		}
	}
	if _, err := query.Ask(t.Context(), dsn, `SELECT encode(wrapped, 'hex') FROM data_keys`, asked); !errors.Is(err, query.ErrSecret) {
		t.Errorf("a secret was asked for: %v", err)
	}
}

// TestEveryColumnOfTheVaultIsJudged: a new one is shown only when somebody wrote it down here.
func TestEveryColumnOfTheVaultIsJudged(t *testing.T) {
	pool := pgtest.Vault(t)
	tables, err := vault.Shown(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, table := range tables {
		var names []string
		for _, column := range table.Columns {
			names = append(names, column.Name)
		}
		shown = append(shown, table.Name+": "+strings.Join(names, " "))
	}
	want := []string{
		"credentials: user_id registered_at tier tier_position created_at",
		"data_keys: scope version created_at",
		"policy_begins: policy era partition next_offset began_at",
		"refresh_families: family user_id number rotated_at expires_at revoked_at revoked_why",
		"scope_keys: scope destroyed_at destroyed_why created_at",
		"tickets: user_id valid_until principal_until",
		"vault: one data_format format_level created_at",
		"voids: era partition log_offset reason voided_at",
	}
	if !slices.Equal(shown, want) {
		t.Fatalf("shown of the vault:\n%s\nif a column is no secret, write it down here; if it is one, in vault.Secrets", strings.Join(shown, "\n"))
	}
	var n int
	for _, secret := range vault.Secrets() {
		table, column, _ := strings.Cut(secret, ".")
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 AND column_name = $2`,
			table, column).Scan(&n); err != nil || n != 1 {
			t.Errorf("the secret %s is no column (%v)", secret, err)
		}
	}
}

// TestRowsAreCounted of every table, and only about where that takes too long.
func TestRowsAreCounted(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `CREATE TABLE five AS SELECT * FROM generate_series(1, 5)`); err != nil {
		t.Fatal(err)
	}
	counts, err := query.Counts(t.Context(), dsn, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range counts {
		found = found || c.Table == "five" && c.Rows == 5 && c.Exact && c.Bytes > 0
	}
	if !found || len(counts) < 10 {
		t.Fatalf("counted %+v", counts)
	}
}
