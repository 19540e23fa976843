package projections

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// channel is where every process hears that read models moved.
const channel = "cairn_projections"

const notify = `SELECT pg_notify('` + channel + `', $1)`

// notice is what is sent in the transaction that moves them, so that whoever hears it sees the rows.
type notice struct {
	Partition int32    `json:"p"`
	Lane      int      `json:"l,omitempty"`
	Next      int64    `json:"n,omitempty"`
	Era       int      `json:"e,omitempty"`
	Moved     []string `json:"m,omitempty"` // generations whose checkpoint is Next, such as "threads 2"
	Touched   []string `json:"t,omitempty"` // models whose rows changed
	Stopped   []string `json:"s,omitempty"` // generations
	Changed   []string `json:"c,omitempty"` // models whose live generation or lanes are others, or that were paused or resumed
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// namesAtOnce is how many generations, and how many models, one notice names at most: Postgres takes no more than 8000 bytes,
// and a name has at most 63.
const namesAtOnce = 50

// texts are the notices as they are sent: several where one would name too many.
func (n notice) texts() ([]string, error) {
	var all []string
	for {
		part := n
		part.Moved, n.Moved = first(n.Moved)
		part.Touched, n.Touched = first(n.Touched)
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
		if len(n.Moved)+len(n.Touched) == 0 {
			return all, nil
		}
	}
}

func first(names []string) (some, rest []string) {
	n := min(len(names), namesAtOnce)
	return names[:n], names[n:]
}

func send(ctx context.Context, on execer, n notice) error {
	texts, err := n.texts()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := on.Exec(ctx, notify, text); err != nil {
			return fmt.Errorf("projections: notify: %w", err)
		}
	}
	return nil
}

// Wake wakes who waits for those models to change, in every process, for a change that no event made.
func Wake(ctx context.Context, on execer, models ...string) error {
	return send(ctx, on, notice{Touched: models})
}
