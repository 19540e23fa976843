package work

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// SilentAfter is how long after its last sign of life a process does not count as running any more.
const SilentAfter = time.Minute

// Process is a running process of Cairn, and the format level up to which it can read the log.
type Process struct {
	ID      string `json:"process"`
	Version string `json:"version"`
	Roles   string `json:"roles"`
	Host    string `json:"host"`
	Level   int    `json:"level"`
	// Revisions are the newest of each read model that it can read. A release that knew of none says nothing: it reads the first.
	Revisions map[string]int `json:"revisions"`
	StartedAt time.Time      `json:"started_at"`
	TouchedAt time.Time      `json:"touched_at"`
}

// Announce says that a process runs. It does so again every few seconds.
func (t *Tables) Announce(ctx context.Context, p Process) error {
	_, err := t.pool.Exec(ctx, `WITH gone AS (DELETE FROM processes WHERE touched_at < cairn_now() - interval '1 day' AND process <> $1)
		INSERT INTO processes (process, version, roles, host, level, revisions, started_at, touched_at)
			VALUES ($1, $2, $3, $4, $5, $6, cairn_now(), cairn_now())
		ON CONFLICT (process) DO UPDATE SET touched_at = EXCLUDED.touched_at`, p.ID, p.Version, p.Roles, p.Host, p.Level, revisions(p))
	return wrap("announce", err)
}

// revisions are stored as an object, also where there are none.
func revisions(p Process) map[string]int {
	if p.Revisions == nil {
		return map[string]int{}
	}
	return p.Revisions
}

// Reads reports whether the process can read a revision of a read model.
func (p Process) Reads(model string, revision int) bool {
	return max(1, p.Revisions[model]) >= revision
}

// Withdraw says that a process ends of its own accord.
func (t *Tables) Withdraw(ctx context.Context, id string) error {
	_, err := t.pool.Exec(ctx, `DELETE FROM processes WHERE process = $1`, id)
	return wrap("withdraw", err)
}

// Processes are those that run, the oldest first.
func (t *Tables) Processes(ctx context.Context) ([]Process, error) {
	rows, err := t.pool.Query(ctx, `SELECT process, version, roles, host, level, revisions, started_at, touched_at FROM processes
		WHERE touched_at > cairn_now() - make_interval(secs => $1) ORDER BY started_at, process`, SilentAfter.Seconds())
	if err != nil {
		return nil, wrap("processes", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Process, err error) {
		err = row.Scan(&p.ID, &p.Version, &p.Roles, &p.Host, &p.Level, &p.Revisions, &p.StartedAt, &p.TouchedAt)
		p.StartedAt, p.TouchedAt = p.StartedAt.UTC(), p.TouchedAt.UTC()
		return p, err
	})
	return found, wrap("processes", err)
}
