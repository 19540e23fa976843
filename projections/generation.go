package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain/safety"
)

// The states of a generation, in the order in which it goes through them.
const (
	Filling  = "filling"  // its rows come from the log, without indexes
	Indexing = "indexing" // it is within a batch of the end, and its indexes are made
	Feeding  = "feeding"  // it gets every batch, like the one that is read
)

// Generation is one filling of a read model's tables.
type Generation struct {
	Projection string
	Number     int // 1, 2, 3 … of the projection
	Revision   int // of the code that fills it
	Lanes      int
	State      string
	Tables     []string // without the number
	Live       bool     // it is the one that is read
	Previous   bool     // a rollback goes there
	ByHand     bool     // an operator swapped or rolled back to it or from it
	CreatedAt  time.Time
	FilledAt   *time.Time
	VerifiedAt *time.Time
	Verdict    json.RawMessage // of the last Verify

	shape string // the statements that made its tables
}

// String names it, such as "threads 2".
func (g Generation) String() string { return g.Projection + " " + strconv.Itoa(g.Number) }

// Table is the name of one of its tables in the database.
func (g Generation) Table(name string) string { return name + "_" + strconv.Itoa(g.Number) }

var named = regexp.MustCompile(`\{[a-z][a-z0-9_]*\}`)

// Expand writes the names of its tables where SQL has them in braces, such as {threads}. {live} is true.
func (g Generation) Expand(sql string) string { return g.expand(sql, "true") }

func (g Generation) expand(sql, live string) string {
	return named.ReplaceAllStringFunc(sql, func(name string) string {
		if name == "{live}" {
			return live
		}
		return g.Table(name[1 : len(name)-1])
	})
}

// checked is the SQL of a read that fails with CRN02 where the generation is not the live one.
func (g Generation) checked(sql string) string {
	if safety.Off(safety.Live) {
		return g.Expand(sql)
	}
	return g.expand(sql, "cairn_serves('"+g.Projection+"', "+strconv.Itoa(g.Number)+")")
}

// Generations are those of all projections, by name and number, in the snapshot of q.
func Generations(ctx context.Context, q querier) ([]Generation, error) {
	return generations(ctx, q, `ORDER BY g.projection, g.generation`)
}

// ErrNoGeneration is the answer for a generation, or a projection, that is not there.
var ErrNoGeneration = errors.New("there is no such generation: see `cairn projections list`")

// LiveGeneration is the one of a projection that is read, in the snapshot of q.
func LiveGeneration(ctx context.Context, q querier, projection string) (Generation, error) {
	found, err := generations(ctx, q, `WHERE p.generation = g.generation AND p.name = $1`, projection)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("projections: %s: %w", projection, ErrNoGeneration)
	}
	if err != nil {
		return Generation{}, err
	}
	return found[0], nil
}

func generations(ctx context.Context, q querier, which string, args ...any) ([]Generation, error) {
	rows, err := q.Query(ctx, `SELECT g.projection, g.generation, g.revision, g.lanes, g.state, g.tables, g.shape,
			p.generation = g.generation, coalesce(p.previous = g.generation, false), g.created_at, g.filled_at, g.verified_at, g.verdict::text, g.by_hand
		FROM projection_generations g JOIN projections p ON p.name = g.projection `+which, args...)
	if err != nil {
		return nil, fmt.Errorf("projections: generations: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g Generation, err error) {
		var verdict *string
		err = row.Scan(&g.Projection, &g.Number, &g.Revision, &g.Lanes, &g.State, &g.Tables, &g.shape, &g.Live, &g.Previous,
			&g.CreatedAt, &g.FilledAt, &g.VerifiedAt, &verdict, &g.ByHand)
		g.CreatedAt = g.CreatedAt.UTC()
		if verdict != nil {
			g.Verdict = json.RawMessage(*verdict)
		}
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: generations: %w", err)
	}
	return found, nil
}

// Of are the generations of a projection.
func Of(all []Generation, projection string) []Generation {
	return slices.DeleteFunc(slices.Clone(all), func(g Generation) bool { return g.Projection != projection })
}
