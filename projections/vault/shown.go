package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ShownTable is a table of the vault without its secrets.
type ShownTable struct {
	Name string
	// Columns and their types, as CREATE TABLE writes them.
	Columns []ShownColumn
	// By is the column that says whose a row is: scope or user_id; empty: it is nobody's.
	By string
}

// ShownColumn is a column that may be shown.
type ShownColumn struct{ Name, Type string }

// secrets are the columns that nothing but the vault itself reads: wrapped keys, what proves a password, and what finds
// a person by an e-mail. A column stands here or is shown: a test looks at each.
func secrets() map[string][]string {
	return map[string][]string{
		"vault":       {"master_check"},
		"scope_keys":  {"index_key"},
		"data_keys":   {"wrapped"},
		"credentials": {"email_digest", "password_hash"},
		"tickets":     {"digest"},
	}
}

// Secrets are the columns that are never shown, as table.column.
func Secrets() []string {
	var all []string
	for table, columns := range secrets() {
		for _, column := range columns {
			all = append(all, table+"."+column)
		}
	}
	return all
}

// Shown are the tables of a vault with the columns that may be shown. It needs no master key.
func Shown(ctx context.Context, pool *pgxpool.Pool) ([]ShownTable, error) {
	rows, err := pool.Query(ctx, `SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
		  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'cairn_migrations'
		   AND a.attnum > 0 AND NOT a.attisdropped
		 ORDER BY c.relname, a.attnum`)
	if err != nil {
		return nil, fmt.Errorf("vault: tables: %w", err)
	}
	var tables []ShownTable
	hidden := secrets()
	var table string
	var column ShownColumn
	_, err = pgx.ForEachRow(rows, []any{&table, &column.Name, &column.Type}, func() error {
		if n := len(tables); n == 0 || tables[n-1].Name != table {
			tables = append(tables, ShownTable{Name: table})
		}
		t := &tables[len(tables)-1]
		for _, secret := range hidden[table] {
			if secret == column.Name {
				return nil
			}
		}
		t.Columns = append(t.Columns, column)
		if column.Name == "scope" || column.Name == "user_id" {
			t.By = column.Name
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("vault: tables: %w", err)
	}
	return tables, nil
}

// Names are the columns for SQL.
func (t ShownTable) Names() string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = pgx.Identifier{c.Name}.Sanitize()
	}
	return strings.Join(names, ", ")
}

// CopyShown copies what may be shown of a table into a temporary table of the same name in another session, where
// whatever is asked of it can't reach a secret.
func CopyShown(ctx context.Context, from *pgxpool.Pool, table ShownTable, to *pgx.Conn) error {
	name := pgx.Identifier{table.Name}.Sanitize()
	defs := make([]string, len(table.Columns))
	for i, c := range table.Columns {
		defs[i] = pgx.Identifier{c.Name}.Sanitize() + " " + c.Type
	}
	if _, err := to.Exec(ctx, `CREATE TEMPORARY TABLE `+name+` (`+strings.Join(defs, ", ")+`)`); err != nil {
		return fmt.Errorf("vault: a place for %s: %w", table.Name, err)
	}
	conn, err := from.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	defer conn.Release()
	reader, writer := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Conn().PgConn().CopyTo(ctx, writer, `COPY (SELECT `+table.Names()+` FROM `+name+`) TO STDOUT`)
		failed <- errors.Join(err, writer.CloseWithError(err))
	}()
	_, err = to.PgConn().CopyFrom(ctx, reader, `COPY `+name+` FROM STDIN`)
	reader.CloseWithError(err) //nolint:errcheck,gosec // it only wakes the writer
	if err = errors.Join(err, <-failed); err != nil {
		return fmt.Errorf("vault: copy %s: %w", table.Name, err)
	}
	return nil
}
