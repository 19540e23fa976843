// Package query asks the read models in SQL: it can change nothing, takes only so long, and answers only so many rows.
// Of the vault it sees a copy without secrets, and only when it is asked to.
package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections/vault"
)

// Options bound a question.
type Options struct {
	// Timeout ends a statement that takes longer. It must be more than zero.
	Timeout time.Duration
	// Rows is how many rows are answered at most; zero: all.
	Rows int
	// OwnRole asks as the role of the DSN, which may do more than read; else as a role that is made for the question.
	OwnRole bool
	// Vault also shows the tables of this vault, without their secrets. Nil: not.
	Vault *pgxpool.Pool
}

// Result is an answer. Of each value Text holds what Postgres writes.
type Result struct {
	Columns []Column
	Rows    [][]Value
	More    bool // there were more rows than asked for
}

// Column is a column of an answer.
type Column struct {
	Name string
	Type uint32 // the type's OID
}

// What a question can't be.
var (
	ErrVault  = errors.New("that is a table of the vault, which is not shown unless it is asked for: add --vault (secrets are left out)")
	ErrSecret = errors.New("secrets of the vault are not shown")
	ErrWrites = errors.New("the read models are only read here: SELECT, WITH, VALUES, TABLE, SHOW and EXPLAIN are what can be asked")
	ErrSlow   = errors.New("it took too long: ask for less, or allow more with --timeout")
)

// Ask answers a question in a session of its own that ends with it, so that nothing which it set or locked stays, and as a
// role of its own that may only read (ErrNoRole where the server has none for it).
func Ask(ctx context.Context, dsn, sql string, o Options) (Result, error) {
	sql = strings.TrimRight(strings.TrimSpace(sql), "; \n\t")
	if strings.ContainsRune(sql, 0) {
		return Result{}, fmt.Errorf("a NUL character: %w", ErrWrites)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout+5*time.Second) // the server ends it first, in words
	defer cancel()
	conn, leave, err := enter(ctx, dsn, o)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	if err := showVault(ctx, conn, sql, o.Vault); err != nil {
		return Result{}, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Result{}, fmt.Errorf("query: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := bound(ctx, tx, o.Timeout); err != nil {
		return Result{}, err
	}
	result, err := ask(ctx, tx, sql, o.Rows)
	return result, explained(err, o)
}

// enter begins the session. Whoever leaves ends it, and the role that it was of.
func enter(ctx context.Context, dsn string, o Options) (conn *pgx.Conn, leave func(), err error) {
	admin, err := connect(ctx, dsn, asOwner)
	if err != nil {
		return nil, nil, err
	}
	end := func(conn *pgx.Conn) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		conn.Close(ctx) //nolint:errcheck,gosec // there is nothing in it that anybody waits for
	}
	if o.OwnRole {
		return admin, func() { end(admin) }, nil
	}
	role, password, err := newReader(ctx, admin, o.Timeout)
	if err != nil {
		end(admin)
		return nil, nil, err
	}
	gone := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		role.drop(ctx)
		end(admin)
	}
	conn, err = connect(ctx, dsn, func(config *pgx.ConnConfig) {
		config.User, config.Password = role.name, password
		delete(config.RuntimeParams, "role") // of the DSN: nothing that this one could be
	})
	if err != nil {
		gone()
		return nil, nil, fmt.Errorf("%w: %w", ErrNoRole, err)
	}
	return conn, func() { end(conn); gone() }, nil
}

func asOwner(*pgx.ConnConfig) {}

func connect(ctx context.Context, dsn string, as func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	config.RuntimeParams["application_name"] = "cairn db query"
	as(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	return conn, nil
}

// bound limits what the transaction may take.
func bound(ctx context.Context, tx pgx.Tx, timeout time.Duration) error {
	for _, set := range []string{
		fmt.Sprintf("SET LOCAL statement_timeout = %d", max(1, timeout.Milliseconds())),
		"SET LOCAL lock_timeout = '2s'",
		"SET LOCAL idle_in_transaction_session_timeout = '1min'",
	} {
		if _, err := tx.Exec(ctx, set); err != nil {
			return fmt.Errorf("query: %w", err)
		}
	}
	return nil
}

// ask reads through a cursor, which Postgres only makes for what reads; what is no query but tells something goes as it is.
// Both go as one statement: whoever ends it with a semicolon can't begin another.
func ask(ctx context.Context, tx pgx.Tx, sql string, most int) (Result, error) {
	if word := firstWord(sql); word == "SHOW" || word == "EXPLAIN" {
		return collect(ctx, tx, sql, most)
	}
	if _, err := collect(ctx, tx, declare+sql, most); err != nil {
		return Result{}, err
	}
	fetch := "FETCH ALL FROM asked"
	if most > 0 {
		fetch = fmt.Sprintf("FETCH %d FROM asked", most+1)
	}
	return collect(ctx, tx, fetch, most)
}

const declare = "DECLARE asked NO SCROLL CURSOR FOR "

func collect(ctx context.Context, tx pgx.Tx, sql string, most int) (Result, error) {
	var r Result
	columns, err := Each(ctx, tx.Conn(), sql, nil, func(_ []Column, row []Value) error {
		if most > 0 && len(r.Rows) == most {
			r.More = true
			return nil
		}
		r.Rows = append(r.Rows, row)
		return nil
	})
	r.Columns = columns
	return r, err
}

// Each hands out the rows of one statement, with texts for its parameters, and answers the columns.
func Each(ctx context.Context, conn *pgx.Conn, sql string, args []string, each func([]Column, []Value) error) (columns []Column, err error) {
	params := make([][]byte, len(args))
	for i, arg := range args {
		params[i] = []byte(arg)
	}
	rows := conn.PgConn().ExecParams(ctx, sql, params, nil, nil, nil)
	head := func() { // known from the first row on, or at the end where there is none
		for _, f := range rows.FieldDescriptions() {
			columns = append(columns, Column{Name: f.Name, Type: f.DataTypeOID})
		}
	}
	for err == nil && rows.NextRow() {
		if columns == nil {
			head()
		}
		raw := rows.Values()
		row := make([]Value, len(raw))
		for i, value := range raw {
			row[i] = newValue(columns[i].Type, value)
		}
		err = each(columns, row)
	}
	if columns == nil {
		head()
	}
	_, failed := rows.Close()
	return columns, errors.Join(err, failed)
}

func firstWord(sql string) string {
	end := strings.IndexFunc(sql, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(sql)
	}
	return strings.ToUpper(sql[:end])
}

// explained says what to do about what Postgres said.
func explained(err error, o Options) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return err
	}
	switch said.Code {
	case "57014": // query_canceled
		return fmt.Errorf("%w (it had %s)", ErrSlow, o.Timeout)
	case "25006": // read_only_sql_transaction
		return ErrWrites
	case "42601": // syntax_error
		if said.Position == 0 || said.Position <= int32(len(declare)+1) {
			return fmt.Errorf("%s: %w", said.Message, ErrWrites)
		}
	case "0A000": // feature_not_supported: DECLARE CURSOR with a part that writes
		return fmt.Errorf("%s: %w", said.Message, ErrWrites)
	case "42P01": // undefined_table
		if o.Vault == nil && mentionsVault(said.Message) {
			return ErrVault
		}
		return fmt.Errorf("%s (`cairn db query` without SQL lists the tables)", said.Message)
	case "42703": // undefined_column
		for _, secret := range vault.Secrets() {
			_, column, _ := strings.Cut(secret, ".")
			if o.Vault != nil && strings.Contains(said.Message, column) {
				return fmt.Errorf("%s: %w", secret, ErrSecret)
			}
		}
	}
	if said.Hint != "" {
		return fmt.Errorf("%s (%s)", said.Message, said.Hint)
	}
	return errors.New(said.Message)
}
