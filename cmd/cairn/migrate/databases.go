package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/vault"
)

// ErrUsed is the answer where the databases to copy to are in use.
var ErrUsed = errors.New("the databases to copy to are not empty")

// emptyDatabases makes the schemas of the databases to copy to, and refuses those that somebody has used.
func emptyDatabases(ctx context.Context, to Installation) error {
	for _, database := range []struct {
		url, used string
		which     migrations.Database
	}{
		{to.ReadURL, `SELECT EXISTS (SELECT FROM projection_checkpoints) OR EXISTS (SELECT FROM writer_checkpoints)`, migrations.Read},
		{to.VaultURL, `SELECT EXISTS (SELECT FROM vault) OR EXISTS (SELECT FROM scope_keys)`, migrations.Vault},
	} {
		if err := migrations.Up(ctx, database.url, database.which); err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, database.url)
		if err != nil {
			return fmt.Errorf("connect to the new database %s: %w", database.which.Name(), err)
		}
		var used bool
		err = conn.QueryRow(ctx, database.used).Scan(&used)
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			return fmt.Errorf("look into the new database %s: %w", database.which.Name(), err)
		}
		if used {
			return fmt.Errorf("%s: %w", database.which.Name(), ErrUsed)
		}
	}
	return nil
}

// copyDatabases copies both databases, each as of one moment, and answers pools of the copies.
func (m *move) copyDatabases(ctx context.Context) (read, vaults *pgxpool.Pool, err error) {
	if vaults, err = pgxpool.New(ctx, m.To.VaultURL); err != nil {
		return nil, nil, fmt.Errorf("connect to the new vault: %w", err)
	}
	if read, err = pgxpool.New(ctx, m.To.ReadURL); err != nil {
		vaults.Close()
		return nil, nil, fmt.Errorf("connect to the new read models: %w", err)
	}
	if err = m.copyTables(ctx, m.vault, vaults); err == nil {
		err = pgx.BeginFunc(ctx, read, func(tx pgx.Tx) error { return projections.Mirror(ctx, m.read, tx) })
	}
	if err == nil {
		err = m.copyTables(ctx, m.read, read)
	}
	if err == nil {
		err = pgx.BeginFunc(ctx, read, func(tx pgx.Tx) error { return projections.Show(ctx, tx) })
	}
	if err != nil {
		read.Close()
		vaults.Close()
		return nil, nil, err
	}
	return read, vaults, nil
}

// copyTables streams every table into one transaction of the other database.
func (m *move) copyTables(ctx context.Context, from, to *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, to, func(tx pgx.Tx) error {
		_, err := vault.Dump(ctx, from, func(table vault.Table) (io.WriteCloser, error) {
			// A row that the schema itself brings, such as the switch of the effects, is that of the copy.
			if _, err := tx.Exec(ctx, "DELETE FROM "+pgx.Identifier{table.Name}.Sanitize()); err != nil {
				return nil, err
			}
			m.Progress.Step("table "+table.Name, 0, 0)
			return newPipe(ctx, tx, table), nil
		})
		return err
	})
}

// pipe writes rows into a table.
type pipe struct {
	*io.PipeWriter
	done chan error
}

func newPipe(ctx context.Context, tx pgx.Tx, table vault.Table) *pipe {
	r, w := io.Pipe()
	p := &pipe{PipeWriter: w, done: make(chan error, 1)}
	columns := ""
	for i, c := range table.Columns {
		if i > 0 {
			columns += ", "
		}
		columns += pgx.Identifier{c}.Sanitize()
	}
	go func() {
		_, err := tx.Conn().PgConn().CopyFrom(ctx, r, "COPY "+pgx.Identifier{table.Name}.Sanitize()+" ("+columns+") FROM STDIN")
		r.CloseWithError(err)
		p.done <- err
	}()
	return p
}

// Close ends the table and waits until it is written.
func (p *pipe) Close() error { return errors.Join(p.PipeWriter.Close(), <-p.done) }
