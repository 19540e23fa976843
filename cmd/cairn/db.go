package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/cairn/query"
)

type dbCmd struct {
	Query dbQueryCmd `cmd:"" help:"Ask the read models in SQL; without any: the row counts of every table."`
}

type dbQueryCmd struct {
	SQL     string        `arg:"" optional:"" name:"sql" help:"One statement that reads; - takes it from the standard input."`
	Rows    int           `help:"At most so many rows; 0: all." default:"1000"`
	Timeout time.Duration `help:"How long it may take." default:"30s"`
	OwnRole bool          `help:"Ask as the role of the DSN, where the server has no role for the question alone: it may then do whatever that role may."`
	Vault   bool          `help:"Also show the tables of the vault, without their secrets."`
}

// Run asks.
func (d dbQueryCmd) Run(ctx context.Context, config *app.Config, c *console) error {
	if d.Rows < 0 || d.Timeout <= 0 {
		return errors.New("--rows must be 0 or more, and --timeout more than nothing")
	}
	if d.SQL == "-" {
		text, err := io.ReadAll(c.in)
		if err != nil {
			return fmt.Errorf("read the statement: %w", err)
		}
		d.SQL = string(text)
	}
	attached, _, err := config.Attach()
	if err != nil {
		return err
	}
	if d.SQL == "" {
		return d.counts(ctx, attached, c)
	}
	o := query.Options{Timeout: d.Timeout, Rows: d.Rows, OwnRole: d.OwnRole}
	if d.OwnRole {
		fmt.Fprintln(c.err, "cairn: this is asked as the role of the DSN: nothing but the read-only transaction keeps it from what that role may do")
	}
	if d.Vault {
		if o.Vault, err = pgxpool.New(ctx, attached.VaultURL); err != nil {
			return fmt.Errorf("connect to the vault: %w", err)
		}
		defer o.Vault.Close()
	}
	result, err := query.Ask(ctx, attached.DatabaseURL, d.SQL, o)
	if err != nil {
		return err
	}
	if err := printResult(c, result); err != nil {
		return err
	}
	if result.More {
		fmt.Fprintf(c.err, "cairn: these are the first %d rows, and there are more (--rows)\n", d.Rows)
	}
	return nil
}

func printResult(c *console, r query.Result) error {
	if c.json {
		return r.Lines(c.out)
	}
	header, rows := make([]string, len(r.Columns)), make([][]any, len(r.Rows))
	for i, column := range r.Columns {
		header[i] = column.Name
	}
	for i, row := range r.Rows {
		for _, value := range row {
			rows[i] = append(rows[i], value)
		}
	}
	printTable(c.out, header, rows)
	return nil
}

// counts shows every table of the read models, and with --vault also the vault's.
func (d dbQueryCmd) counts(ctx context.Context, config app.Config, c *console) error {
	databases := []struct{ name, dsn string }{{"cairn", config.DatabaseURL}}
	if d.Vault {
		databases = append(databases, struct{ name, dsn string }{"vault", config.VaultURL})
	}
	var rows [][]any
	for _, database := range databases {
		counts, err := query.Counts(ctx, database.dsn, d.Timeout)
		if err != nil {
			return err
		}
		for _, n := range counts {
			if c.json {
				if err := printJSON(c.out, struct {
					Database string `json:"database"`
					query.Count
				}{database.name, n}); err != nil {
					return err
				}
				continue
			}
			about := ""
			if !n.Exact {
				about = "about "
			}
			rows = append(rows, []any{database.name, n.Table, fmt.Sprintf("%s%d", about, n.Rows), fmt.Sprintf("%.1f", float64(n.Bytes)/(1<<20))})
		}
	}
	if !c.json {
		printTable(c.out, []string{"Database", "Table", "Rows", "MiB"}, rows)
	}
	return nil
}
