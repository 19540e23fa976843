package projections_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/lifeline"
)

// What may be tried again is told from what is wrong, and from a caller's own patience.
func TestADatabaseThatIsAwayIsToldFromAnError(t *testing.T) {
	_, refused := pgx.Connect(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	state := func(code string) error { return fmt.Errorf("read: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err  error
		away bool
	}{
		{nil, false},
		{refused, true},
		{state("57P01"), true}, // shut down
		{state("57P03"), true}, // starts up
		{state("53300"), true}, // no connection left
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{fmt.Errorf("read: %w", lifeline.ErrStalled), true},
		{state("42P01"), false}, // no such table
		{state("57014"), false}, // cancelled
		{errors.New("something else"), false},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), false},
		{fmt.Errorf("read: %w", context.Canceled), false},
	} {
		if got := projections.Away(c.err); got != c.away {
			t.Errorf("%v: answered %v", c.err, got)
		}
	}
}
