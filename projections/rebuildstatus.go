package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Status is all that is known of one read model.
type Status struct {
	Projection  string             `json:"projection"`
	PausedAt    *time.Time         `json:"paused_at,omitempty"`
	PausedBy    string             `json:"paused_by,omitempty"`
	Rebuilding  bool               `json:"rebuilding"` // a process is at it
	Generations []GenerationStatus `json:"generations"`
	Lags        []Lag              `json:"lags"`
	Stops       []Stop             `json:"stops"`
	Skips       []SkippedEvent     `json:"skips"`
}

// GenerationStatus is one filling of it.
type GenerationStatus struct {
	Number     int             `json:"generation"`
	Revision   int             `json:"revision"`
	State      string          `json:"state"`
	Live       bool            `json:"live"`
	Previous   bool            `json:"previous"` // a rollback goes there
	Lanes      int             `json:"lanes"`
	Bytes      uint64          `json:"bytes"` // on disk, with indexes
	BegunAt    time.Time       `json:"begun_at"`
	FilledAt   *time.Time      `json:"filled_at,omitempty"`
	VerifiedAt *time.Time      `json:"verified_at,omitempty"`
	Verdict    json.RawMessage `json:"verdict,omitempty"`
	AskedBy    string          `json:"asked_by,omitempty"`
	Swap       SwapMode        `json:"swap,omitempty"`
	FailedAt   *time.Time      `json:"failed_at,omitempty"`
	Failure    string          `json:"failure,omitempty"`
}

// Stop is where a generation has stopped.
type Stop struct {
	Generation int       `json:"generation"`
	Partition  int32     `json:"partition"`
	Lane       int       `json:"lane"`
	Offset     int64     `json:"offset"`
	Event      string    `json:"event"`
	Reason     string    `json:"reason"`
	At         time.Time `json:"at"`
}

// SkippedEvent is one that an operator stepped over.
type SkippedEvent struct {
	Event     string    `json:"event"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// StatusOf looks at a read model.
func StatusOf(ctx context.Context, pool *pgxpool.Pool, name string) (Status, error) {
	s := Status{Projection: name, Stops: []Stop{}, Skips: []SkippedEvent{}, Lags: []Lag{}}
	err := pool.QueryRow(ctx, `SELECT paused_at, coalesce(paused_by, '') FROM projections WHERE name = $1`, name).Scan(&s.PausedAt, &s.PausedBy)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("projections: there is no read model %q: see `cairn projections list`", name)
	}
	if err == nil {
		s.Rebuilding, err = Rebuilding(ctx, pool, name)
	}
	for _, look := range []func(context.Context, *pgxpool.Pool, *Status) error{lookAtGenerations, lookAtLags, lookAtSkips} {
		if err == nil {
			err = look(ctx, pool, &s)
		}
	}
	if err != nil {
		return s, fmt.Errorf("projections: status of %s: %w", name, err)
	}
	return s, nil
}

func lookAtGenerations(ctx context.Context, pool *pgxpool.Pool, s *Status) error {
	all, err := Generations(ctx, pool)
	if err != nil {
		return err
	}
	sizes, err := Sizes(ctx, pool)
	if err != nil {
		return err
	}
	asked, err := askedFor(ctx, pool)
	if err != nil {
		return err
	}
	for _, g := range Of(all, s.Projection) {
		n := Numbered{g.Projection, g.Number}
		q := asked[n]
		s.Generations = append(s.Generations, GenerationStatus{
			Number: g.Number, Revision: g.Revision, State: g.State, Live: g.Live, Previous: g.Previous, Lanes: g.Lanes, Bytes: sizes[n],
			BegunAt: g.CreatedAt, FilledAt: g.FilledAt, VerifiedAt: g.VerifiedAt, Verdict: g.Verdict,
			AskedBy: q.by, Swap: q.swap, FailedAt: q.failedAt, Failure: q.failure,
		})
	}
	return nil
}

func lookAtLags(ctx context.Context, pool *pgxpool.Pool, s *Status) error {
	lags, err := Lags(ctx, pool)
	if err != nil {
		return err
	}
	for _, l := range lags {
		if l.Projection == s.Projection {
			s.Lags = append(s.Lags, l)
		}
	}
	states, err := List(ctx, pool)
	if err != nil {
		return err
	}
	for _, at := range states {
		if at.Projection == s.Projection && at.Stopped != nil {
			s.Stops = append(s.Stops, Stop{
				Generation: at.Generation, Partition: at.Partition, Lane: at.Lane, Offset: at.Stopped.Offset, Event: at.Stopped.Event,
				Reason: at.Stopped.Reason, At: at.Stopped.At,
			})
		}
	}
	return nil
}

func lookAtSkips(ctx context.Context, pool *pgxpool.Pool, s *Status) error {
	rows, err := pool.Query(ctx, `SELECT event_id, partition, log_offset, reason, skipped_by, skipped_at FROM projection_skips
		WHERE projection = $1 ORDER BY skipped_at, event_id`, s.Projection)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k SkippedEvent, err error) {
		err = row.Scan(&k.Event, &k.Partition, &k.Offset, &k.Reason, &k.By, &k.At)
		k.At = k.At.UTC()
		return k, err
	})
	s.Skips = append(s.Skips, found...)
	return err
}
