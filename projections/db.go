package projections

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is how read models are read: SQL names their tables in braces, such as {threads}, and has {live} as one condition of
// its WHERE. A read never sees two generations, and is repeated where the one it began with is not read any more.
type DB struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	live map[string]Generation // as it was last seen; the database says when it is not true any more
}

// NewDB is the read models of a database.
func NewDB(pool *pgxpool.Pool) *DB { return &DB{pool: pool, live: map[string]Generation{}} }

// Pool is the database itself, for tables that are no read models.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Live is the generation of a model that is taken for the one that is read.
func (db *DB) Live(ctx context.Context, model string) (Generation, error) {
	db.mu.Lock()
	g, ok := db.live[model]
	db.mu.Unlock()
	if ok {
		return g, nil
	}
	return db.reload(ctx, model)
}

func (db *DB) reload(ctx context.Context, model string) (Generation, error) {
	g, err := LiveGeneration(ctx, db.pool, model)
	if err != nil {
		return g, err
	}
	db.mu.Lock()
	db.live[model] = g
	db.mu.Unlock()
	return g, nil
}

// Expand is the SQL for the generation that is taken for the one that is read. It fails when it is another by then, if
// {live} stands in it.
func (db *DB) Expand(ctx context.Context, model, sql string) (string, error) {
	g, err := db.Live(ctx, model)
	return g.checked(sql), err
}

// repeats bounds how often a read is repeated because the generation it read has gone. Swaps are rare.
const repeats = 10

// repeat does something with the SQL of the live generation, again where that is not the live one any more.
func (db *DB) repeat(ctx context.Context, model string, do func(g Generation) error) error {
	g, err := db.Live(ctx, model)
	for range repeats {
		if err != nil {
			return err
		}
		if err = do(g); !gone(err) {
			return err
		}
		was, failed := g.Number, err
		if g, err = db.reload(ctx, model); err == nil && g.Number == was && !swapped(failed) {
			return failed // the table is missing for another reason
		}
	}
	return fmt.Errorf("projections: %s was swapped %d times during one read", model, repeats)
}

// codeSwapped is what cairn_serves says.
const codeSwapped = "CRN02"

func swapped(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == codeSwapped
}

// gone reports an error that a read may get whose generation was swapped or dropped meanwhile: the server says that it is
// not the live one, does not know the table, or lost it (an internal error) between looking it up and opening it.
func gone(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == codeSwapped || strings.HasPrefix(said.Code, "42") || said.Code == "XX000")
}

// Rows reads the rows of a model.
func Rows[T any](ctx context.Context, db *DB, model, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	return RowsOf(ctx, db, model, func(Generation) string { return sql }, scan, args...)
}

// RowsOf reads the rows of a model whose SQL depends on the revision that is read: two are while one takes the other's place.
func RowsOf[T any](ctx context.Context, db *DB, model string, sql func(Generation) string, scan pgx.RowToFunc[T], args ...any) (found []T, err error) {
	err = db.repeat(ctx, model, func(g Generation) error {
		rows, err := db.pool.Query(ctx, g.checked(sql(g)), args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	return found, err
}

// Row reads one row into targets; pgx.ErrNoRows where there is none.
func (db *DB) Row(ctx context.Context, model, sql string, args []any, targets ...any) error {
	return db.repeat(ctx, model, func(g Generation) error {
		return db.pool.QueryRow(ctx, g.checked(sql), args...).Scan(targets...)
	})
}

// Exec runs a statement that reads a model and writes tables that are none.
func (db *DB) Exec(ctx context.Context, model, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = db.repeat(ctx, model, func(g Generation) (err error) {
		tag, err = db.pool.Exec(ctx, g.checked(sql), args...)
		return err
	})
	return tag, err
}

// Tx is one snapshot of several models.
type Tx struct {
	pgx.Tx
	live map[string]Generation
}

// Live is the generation of a model that is read in the snapshot.
func (tx *Tx) Live(model string) Generation { return tx.live[model] }

// Expand is the SQL for the generation that is read in the snapshot.
func (tx *Tx) Expand(model, sql string) string { return tx.live[model].Expand(sql) }

// Snapshot reads several models as they are at one moment. It is repeated whole where a generation that was read then is
// dropped before it is read here: do begins anew each time.
func (db *DB) Snapshot(ctx context.Context, models []string, do func(ctx context.Context, tx *Tx) error) (err error) {
	for range repeats {
		snapshot := &Tx{live: map[string]Generation{}}
		err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			snapshot.Tx = tx
			if err := snapshot.look(ctx, models); err != nil {
				return err
			}
			return do(ctx, snapshot)
		})
		if !gone(err) || !db.moved(ctx, snapshot) {
			return err
		}
	}
	return err
}

func (tx *Tx) look(ctx context.Context, models []string) error {
	found, err := generations(ctx, tx, `WHERE p.generation = g.generation AND p.name = ANY ($1)`, models)
	if err != nil {
		return err
	}
	for _, g := range found {
		tx.live[g.Projection] = g
	}
	for _, model := range models {
		if _, ok := tx.live[model]; !ok {
			return fmt.Errorf("projections: %s: %w", model, ErrNoGeneration)
		}
	}
	return nil
}

// moved reports whether another generation than in the snapshot is read by now.
func (db *DB) moved(ctx context.Context, tx *Tx) bool {
	for model, was := range tx.live {
		if g, err := db.reload(ctx, model); err == nil && g.Number != was.Number {
			return true
		}
	}
	return false
}
