package projections

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairnhq/cairn/projections/lifeline"
)

// Away reports whether an error says that the database can't be reached just now: it is down, is coming up or
// going down, has no connection left, or broke off. Whoever gets one may try again.
func Away(err error) bool {
	var connect *pgconn.ConnectError
	var told *pgconn.PgError
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false // the caller's own patience ended
	case errors.As(err, &told):
		for _, class := range []string{
			"08",    // connection exceptions
			"53",    // out of connections, memory or disk
			"57P",   // shutting down, crashed, starting up
			"58",    // input or output of its own fails
			"3D000", // the database is being brought back
		} {
			if strings.HasPrefix(told.Code, class) {
				return true
			}
		}
		return false
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, lifeline.ErrStalled):
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
