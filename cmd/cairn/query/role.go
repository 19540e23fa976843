package query

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoRole is a server on which a question can't be asked as a role that may only read.
var ErrNoRole = errors.New("a question is asked as a role of its own, which may only read the tables, and this server does not allow that: " +
	"give the role of the DSN CREATEROLE and the tables (or the right to grant SELECT on them), and let roles named cairn_query_… log in (pg_hba.conf); " +
	"or ask with --own-role, as the role of the DSN, where the question may do whatever that role may")

// reader is a role that lives as long as one question. It may log in once, and read the tables of the database, and it is no
// member of any role but the one that has these rights: there is nothing that it could become.
type reader struct {
	admin *pgx.Conn // a session of the DSN's role
	name  string
}

// newReader makes a role for a question of at most so long.
func newReader(ctx context.Context, admin *pgx.Conn, lasts time.Duration) (*reader, string, error) {
	r := &reader{admin: admin, name: "cairn_query_" + strings.ToLower(rand.Text())}
	password := rand.Text()
	verifier, err := scram(password)
	if err != nil {
		return nil, "", err
	}
	var group string
	err = pgx.BeginFunc(ctx, admin, func(tx pgx.Tx) error {
		// One at a time: two grants of the same table at once would fail.
		if err := tx.QueryRow(ctx, `SELECT left('cairn_reader_' || current_database(), 63) FROM (SELECT pg_advisory_xact_lock(hashtext('cairn db query'))) l`).Scan(&group); err != nil {
			return err
		}
		if err := mayRead(ctx, tx, group); err != nil {
			return err
		}
		// No password in the clear: the server may log what makes roles.
		return execute(ctx, tx, `SELECT format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT CONNECTION LIMIT 1
			PASSWORD %L VALID UNTIL %L IN ROLE %I', $1::text, $2::text, statement_timestamp() + $3::interval, $4::text)`, r.name, verifier, lasts+time.Minute, group)
	})
	if err != nil {
		return nil, "", fmt.Errorf("%w: %s", ErrNoRole, said(err))
	}
	return r, password, nil
}

// mayRead sees to it that the group is there and may read every table and view, also those that were made since.
func mayRead(ctx context.Context, tx pgx.Tx, group string) error {
	const public = `FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
		AND NOT has_table_privilege($1::text, c.oid, 'SELECT')`
	for _, sql := range []string{
		`SELECT format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOINHERIT', $1::text) WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = $1::text)`,
		`SELECT format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO %I', current_database(), $1::text)
			WHERE NOT has_database_privilege($1::text, current_database(), 'CONNECT') OR NOT has_database_privilege($1::text, current_database(), 'TEMPORARY')`,
		`SELECT format('GRANT USAGE ON SCHEMA public TO %I', $1::text) WHERE NOT has_schema_privilege($1::text, 'public', 'USAGE')`,
		`SELECT format('GRANT SELECT ON TABLE public.%I TO %I', c.relname, $1::text) ` + public,
	} {
		if err := execute(ctx, tx, sql, group); err != nil {
			return err
		}
	}
	// Roles of questions that were broken off. Another role may have made them, which alone may drop them then.
	if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return execute(ctx, tx, `SELECT format('DROP ROLE %I', m.rolname) FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid JOIN pg_roles m ON m.oid = a.member
			WHERE g.rolname = $1::text AND m.rolname LIKE 'cairn\_query\_%' AND m.rolvaliduntil < statement_timestamp() - interval '1 minute'
			AND NOT EXISTS (SELECT FROM pg_stat_activity s WHERE s.usename = m.rolname)`, group)
	}); err != nil && tx.Conn().IsClosed() {
		return err
	}
	var left []string // a grant that does nothing is only a warning
	if err := tx.QueryRow(ctx, `SELECT array_agg(c.relname::text) `+public, group).Scan(&left); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("reading %s can't be granted", strings.Join(left, ", "))
	}
	return nil
}

// execute executes the statements that a query makes.
func execute(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// scram is what the server keeps of a password.
func scram(password string) (string, error) {
	const rounds = 4096
	salt := make([]byte, 16)
	rand.Read(salt) //nolint:errcheck // it never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	keyed := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, text(salt), text(stored[:]), text(keyed("Server Key"))), nil
}

// drop ends the role. Its session is over, but may still be clearing up; what stays can't log in any more when its time is
// over, and the next question drops it.
func (r *reader) drop(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 40 {
		if _, err := r.admin.Exec(ctx, `DROP ROLE IF EXISTS `+pgx.Identifier{r.name}.Sanitize()); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// said is what Postgres said, without its codes.
func said(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Message
	}
	return err.Error()
}
