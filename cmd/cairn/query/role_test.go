package query_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/query"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
)

func owner(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestAQuestionReadsTablesAndNothingElse: there is no role that it could become, no file, no secret of the server and no
// other session that it reaches, whatever it asks and from however deep within.
func TestAQuestionReadsTablesAndNothingElse(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	pool := owner(t, dsn)
	var pid int
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := conn.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	for _, inner := range []string{
		`SELECT pg_read_file('/etc/hostname')`, `SELECT * FROM pg_authid`, `SELECT * FROM pg_shadow`, `SELECT pg_ls_dir('.')`,
		`SELECT lo_import('/etc/hostname')`, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid), fmt.Sprintf(`SELECT pg_cancel_backend(%d)`, pid),
		`SELECT pg_reload_conf()`, `SELECT pg_stat_reset()`, `SELECT pg_switch_wal()`, `SELECT set_config('session_authorization', 'cairn', true)`,
		`SELECT set_config('log_statement', 'all', true)`,
	} {
		for _, sql := range []string{
			inner,
			`SELECT set_config('role', 'none', true), query_to_xml('` + strings.ReplaceAll(inner, `'`, `''`) + `', true, true, '')`,
		} {
			if r, err := query.Ask(t.Context(), dsn, sql, options()); err == nil {
				t.Errorf("%s: answered %v", sql, r.Rows)
			}
		}
	}
	for _, sql := range []string{`SELECT set_config('role', 'cairn', true), query_to_xml('SELECT 1', true, true, '')`, `SELECT set_config('role', 'pg_read_all_data', true)`, `SELECT set_config('role', 'pg_signal_backend', true)`} {
		if _, err := query.Ask(t.Context(), dsn, sql, options()); err == nil {
			t.Errorf("%s: it became that", sql)
		}
	}
	if err := conn.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatalf("a session of others is gone: %v", err)
	}
	// All that there is may be read, also what is made later.
	if _, err := query.Ask(t.Context(), dsn, `SELECT (SELECT count(*) FROM threads), (SELECT count(*) FROM threads_1), (SELECT count(*) FROM workers)`, options()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE threads_2 (n int); CREATE VIEW seen AS SELECT * FROM threads_2`); err != nil {
		t.Fatal(err)
	}
	if _, err := query.Ask(t.Context(), dsn, `SELECT * FROM seen, threads_2`, options()); err != nil {
		t.Fatal(err)
	}
}

// TestQuestionsAtOnceLeaveNothing: each has a role of its own, which is gone afterwards, as is one that was broken off.
func TestQuestionsAtOnceLeaveNothing(t *testing.T) {
	dsn, vaults := pgtest.DSN(t, migrations.Read), pgtest.Vault(t)
	pool := owner(t, dsn)
	group := "cairn_reader_" + strings.TrimPrefix(pathOf(t, dsn), "/")
	if _, err := query.Ask(t.Context(), dsn, `SELECT 1`, options()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE cairn_query_left LOGIN VALID UNTIL '2020-01-01' IN ROLE %s`, group)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			o, sql := options(), `SELECT count(*) FROM events`
			if i%3 == 0 {
				o.Vault, sql = vaults, `SELECT * FROM scope_keys`
			}
			if i%3 == 1 {
				o.Timeout, sql = time.Second, `SELECT pg_sleep(20)`
			}
			if i == 11 {
				if r, err := query.Ask(t.Context(), dsn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE usename LIKE 'cairn\_query\_%' AND usename <> current_user`, o); err != nil && !strings.Contains(err.Error(), "denied") && !strings.Contains(err.Error(), "must be a member") {
					t.Errorf("ending others: %v (%v)", err, r.Rows)
				}
				return
			}
			if _, err := query.Ask(t.Context(), dsn, sql, o); err != nil && !errors.Is(err, query.ErrSlow) {
				t.Errorf("%s: %v", sql, err)
			}
		})
	}
	all.Wait()
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid WHERE g.rolname = $1`, group).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d roles are left (%v)", left, err)
	}
}

// TestWhereNoRoleCanBeMadeItIsRefused, with what to do; and asked as the role of the DSN only when somebody says so. A role
// that is no superuser is enough where it may make roles and hand on what it reads.
func TestWhereNoRoleCanBeMadeItIsRefused(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	pool, name := owner(t, dsn), "plain_"+strings.ToLower(rand.Text())
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD 'x'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO %[1]s WITH GRANT OPTION`, name)); err != nil {
		t.Fatal(err)
	}
	plain, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	plain.User = url.UserPassword(name, "x")
	if q := plain.Query(); strings.HasPrefix(q.Get("host"), "/") { // over TCP the server asks for passwords
		q.Set("host", "127.0.0.1")
		plain.RawQuery = q.Encode()
	}
	o := options()
	if _, err := query.Ask(t.Context(), plain.String(), `SELECT 1`, o); !errors.Is(err, query.ErrNoRole) || !strings.Contains(err.Error(), "--own-role") {
		t.Fatalf("without the right to make roles: %v", err)
	}
	o.OwnRole = true
	if r, err := query.Ask(t.Context(), plain.String(), `SELECT current_user`, o); err != nil || len(r.Rows) != 1 {
		t.Fatalf("as the role of the DSN: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `ALTER ROLE `+name+` CREATEROLE`); err != nil {
		t.Fatal(err)
	}
	if _, err := query.Ask(t.Context(), plain.String(), `SELECT count(*) FROM threads`, options()); err != nil {
		t.Fatalf("with the right to make roles: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE others (n int)`); err != nil {
		t.Fatal(err)
	}
	if _, err := query.Ask(t.Context(), plain.String(), `SELECT 1`, options()); !errors.Is(err, query.ErrNoRole) || !strings.Contains(err.Error(), "others") {
		t.Fatalf("with a table that it may not hand on: %v", err)
	}
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s`, name)); err != nil {
		t.Fatal(err)
	}
}

func pathOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}
