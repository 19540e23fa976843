// Package holdings finds everything that an installation holds of one scope: rows of the read models and work tables, rows
// of the vault, and records of the topics. It changes nothing, and writes no secret.
package holdings

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/cmd/cairn/query"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Source is an installation.
type Source struct {
	Read, Vault *pgxpool.Pool
	Kafka       kafka.Config
	Schema      *codec.Schema
	// Keys open content for an export. Nil: it stays sealed.
	Keys streams.Keys
	// Progress is told what is being read. Nil: nobody.
	Progress func(Progress)
}

// Progress is how far the reading of one place is.
type Progress struct {
	Place       string
	Done, Total int64 // offsets of a topic's partition; 0: not known
}

// The sorts of places.
const (
	InTable = "table"
	InVault = "vault"
	InTopic = "topic"
	InLog   = "log" // what a topic's records say, by the acceptance rule
)

// Holding is how much one place holds of a scope: rows of a table, records of a topic.
type Holding struct {
	In    string `json:"in"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes,omitempty"` // of a topic's records, keys and headers left out
}

// sink takes what a place holds, one object a line. Counting, it is nil.
type sink func(line []byte) error

// place is one place where something of a scope may be.
type place struct {
	in, name string
	read     func(ctx context.Context, to sink) (Holding, error)
}

// places are all places, in the order in which people want to see them.
func (s Source) places(ctx context.Context, scope domain.Scope) (_ []place, done func(), err error) {
	read, err := s.begin(ctx, s.Read)
	if err != nil {
		return nil, nil, err
	}
	vaults, err := s.begin(ctx, s.Vault)
	if err != nil {
		read.end()
		return nil, nil, err
	}
	done = func() { vaults.end(); read.end() }
	all, err := read.tables(ctx, scope)
	if err == nil {
		var more []place
		if more, err = s.vaultPlaces(ctx, vaults, scope); err == nil {
			all = append(append(all, more...), s.topics(scope)...)
			return all, done, nil
		}
	}
	done()
	return nil, nil, err
}

// Show counts what every place holds.
func Show(ctx context.Context, s Source, scope domain.Scope) ([]Holding, error) {
	places, done, err := s.places(ctx, scope)
	if err != nil {
		return nil, err
	}
	defer done()
	var all []Holding
	for _, p := range places {
		s.tell(Progress{Place: p.name})
		h, err := p.read(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.in, p.name, err)
		}
		h.In, h.Name = p.in, p.name
		all = append(all, h)
	}
	return all, nil
}

func (s Source) tell(p Progress) {
	if s.Progress != nil {
		s.Progress(p)
	}
}

// snapshot is one moment of a database.
type snapshot struct {
	conn *pgxpool.Conn
	tx   pgx.Tx
	end  func()
}

func (s Source) begin(ctx context.Context, pool *pgxpool.Pool) (*snapshot, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &snapshot{conn: conn, tx: tx, end: func() {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		conn.Release()
	}}, nil
}

// tables are those that have a scope, whichever they are: one that is made tomorrow is not forgotten.
func (s *snapshot) tables(ctx context.Context, scope domain.Scope) ([]place, error) {
	names, err := ScopedTables(ctx, s.tx)
	if err != nil {
		return nil, err
	}
	var all []place
	for _, name := range names {
		table := pgx.Identifier{name}.Sanitize()
		all = append(all, place{in: InTable, name: name, read: func(ctx context.Context, to sink) (Holding, error) {
			return s.rows(ctx, `SELECT * FROM `+table+` WHERE scope = $1`, []string{string(scope)}, to)
		}})
	}
	return all, nil
}

// ScopedTables are the tables of a database that have a column scope, views left out: they show the same rows.
func ScopedTables(ctx context.Context, tx pgx.Tx) ([]string, error) {
	found, err := tx.Query(ctx, `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace AND a.attname = 'scope' AND NOT a.attisdropped ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

func (s Source) vaultPlaces(ctx context.Context, at *snapshot, scope domain.Scope) ([]place, error) {
	tables, err := vault.Shown(ctx, s.Vault)
	if err != nil {
		return nil, err
	}
	user, _ := strings.CutPrefix(string(scope), string(domain.User("")))
	var all []place
	for _, table := range tables {
		if table.By == "" {
			continue
		}
		sql := `SELECT ` + table.Names() + ` FROM ` + pgx.Identifier{table.Name}.Sanitize() + ` WHERE ` + table.By + ` = $1`
		args := []string{string(scope)}
		if table.By == "user_id" {
			args = []string{user}
		}
		all = append(all, place{in: InVault, name: table.Name, read: func(ctx context.Context, to sink) (Holding, error) {
			return at.rows(ctx, sql, args, to)
		}})
	}
	return all, nil
}

func (s *snapshot) rows(ctx context.Context, sql string, args []string, to sink) (Holding, error) {
	var h Holding
	if to == nil {
		values := make([]any, len(args))
		for i, arg := range args {
			values[i] = arg
		}
		err := s.tx.QueryRow(ctx, `SELECT count(*) FROM (`+sql+`) t`, values...).Scan(&h.Count)
		return h, err
	}
	_, err := query.Each(ctx, s.tx.Conn(), sql, args, func(columns []query.Column, row []query.Value) error {
		h.Count++
		line, err := query.Line(columns, row)
		return errors.Join(err, to(line))
	})
	return h, err
}
