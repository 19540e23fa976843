package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Table is a table of the vault as a copy has it. Its rows are in the text form of COPY, in the order of Columns.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    int64    `json:"rows"`
}

// Dump writes every table of a vault, all as of one moment, in an order in which Load can take them: open answers where
// the rows of a table go, and Dump closes it. It needs no master key: keys are copied as they are wrapped.
func Dump(ctx context.Context, pool *pgxpool.Pool, open func(Table) (io.WriteCloser, error)) ([]Table, error) {
	var tables []Table
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		found, err := listTables(ctx, tx)
		if err != nil {
			return err
		}
		for _, table := range found {
			to, err := open(table)
			if err != nil {
				return err
			}
			tag, err := tx.Conn().PgConn().CopyTo(ctx, to, "COPY "+table.sql()+" TO STDOUT")
			if err = errors.Join(err, to.Close()); err != nil {
				return fmt.Errorf("table %s: %w", table.Name, err)
			}
			table.Rows = tag.RowsAffected()
			tables = append(tables, table)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("vault: copy: %w", err)
	}
	return tables, nil
}

// ErrNotEmpty is a vault that has something in it already.
var ErrNotEmpty = errors.New("the vault is not empty")

// Load fills an empty vault with the tables of a Dump and makes it agree with the log, in one transaction: nobody ever
// sees a vault in which something that the log says was erased can be opened. The schema must be the one of the Dump.
func Load(ctx context.Context, pool *pgxpool.Pool, tables []Table, open func(Table) (io.ReadCloser, error), facts Facts, now time.Time) (Agreed, error) {
	var agreed Agreed
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, table := range tables {
			if err := load(ctx, tx, table, open); err != nil {
				return fmt.Errorf("table %s: %w", table.Name, err)
			}
		}
		var err error
		agreed, err = agree(ctx, tx, facts, now)
		return err
	})
	if err != nil {
		return Agreed{}, fmt.Errorf("vault: load: %w", err)
	}
	return agreed, nil
}

func load(ctx context.Context, tx pgx.Tx, table Table, open func(Table) (io.ReadCloser, error)) error {
	var used bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+pgx.Identifier{table.Name}.Sanitize()+")").Scan(&used); err != nil {
		return err
	}
	if used {
		return ErrNotEmpty
	}
	from, err := open(table)
	if err != nil {
		return err
	}
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, from, "COPY "+table.sql()+" FROM STDIN")
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	if tag.RowsAffected() != table.Rows {
		return fmt.Errorf("%d rows came of %d", tag.RowsAffected(), table.Rows)
	}
	return nil
}

// sql is the table with its columns, as COPY wants it.
func (t Table) sql() string {
	text := pgx.Identifier{t.Name}.Sanitize() + " ("
	for i, c := range t.Columns {
		if i > 0 {
			text += ", "
		}
		text += pgx.Identifier{c}.Sanitize()
	}
	return text + ")"
}

// listTables are all tables but the one that says how far migrations got, those that others refer to first.
func listTables(ctx context.Context, tx pgx.Tx) ([]Table, error) {
	rows, err := tx.Query(ctx, `
		SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> 'cairn_migrations'
			AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		GROUP BY c.relname ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		err = row.Scan(&t.Name, &t.Columns)
		return t, err
	})
	if err != nil {
		return nil, err
	}
	if rows, err = tx.Query(ctx, `
		SELECT c.relname, r.relname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class r ON r.oid = k.confrelid
		WHERE k.contype = 'f' AND k.connamespace = current_schema()::regnamespace AND c.oid <> r.oid`); err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	var of, on string
	if _, err := pgx.ForEachRow(rows, []any{&of, &on}, func() error {
		needs[of] = append(needs[of], on)
		return nil
	}); err != nil {
		return nil, err
	}
	return inOrder(tables, needs), nil
}

// inOrder puts each table behind those that it needs. Tables that need each other in a circle keep their order.
func inOrder(tables []Table, needs map[string][]string) []Table {
	var out []Table
	var put func(t Table, above []string)
	done := map[string]bool{}
	put = func(t Table, above []string) {
		if done[t.Name] || slices.Contains(above, t.Name) {
			return
		}
		for _, other := range tables {
			if slices.Contains(needs[t.Name], other.Name) {
				put(other, append(above, t.Name))
			}
		}
		done[t.Name] = true
		out = append(out, t)
	}
	for _, t := range tables {
		put(t, nil)
	}
	return out
}

// Seal is what a copy says of the vault it was made from.
type Seal struct {
	DataFormat  int    `json:"data_format"`
	FormatLevel int    `json:"format_level"`
	MasterCheck []byte `json:"master_check"`
}

// Sealed is the seal of a vault. ErrNotFound: no program has used it yet.
func Sealed(ctx context.Context, pool *pgxpool.Pool) (Seal, error) {
	var s Seal
	err := pool.QueryRow(ctx, `SELECT data_format, format_level, master_check FROM vault`).Scan(&s.DataFormat, &s.FormatLevel, &s.MasterCheck)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Seal{}, fmt.Errorf("vault: %w", err)
	}
	return s, nil
}

// Opens makes sure that this program and a master key can work with the vault: ErrNewer, ErrMasterMissing, ErrMasterWrong.
func (s Seal) Opens(master []byte) error {
	if s.DataFormat > DataFormat {
		return fmt.Errorf("vault: data format %d, this program knows %d: %w", s.DataFormat, DataFormat, ErrNewer)
	}
	if len(master) == 0 {
		return fmt.Errorf("vault: %w", ErrMasterMissing)
	}
	kek, err := (&Vault{master: master}).wrapper()
	if err != nil {
		return err
	}
	if text, err := kek.Decrypt(s.MasterCheck, []byte("check")); err != nil || string(text) != checkText {
		return fmt.Errorf("vault: %w", ErrMasterWrong)
	}
	return nil
}

// Voided are the voids of an era, from a vault that need not be opened.
func Voided(ctx context.Context, pool *pgxpool.Pool, era int) ([]Void, error) {
	rows, err := pool.Query(ctx, `SELECT era, partition, log_offset, reason FROM voids WHERE era = $1 ORDER BY partition, log_offset`, era)
	if err != nil {
		return nil, fmt.Errorf("vault: voids: %w", err)
	}
	voids, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Void])
	if err != nil {
		return nil, fmt.Errorf("vault: voids: %w", err)
	}
	return voids, nil
}
