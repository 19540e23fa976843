// Package work holds the tables that may be lost without breaking a promise: which workers live, where
// devices are, and whether effects are paused. Time is the database's, cairn_now().
package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// DeadAfter is how long after its last touch a worker is dead.
const DeadAfter = 10 * time.Second

// Tables reads and writes them.
type Tables struct{ pool *pgxpool.Pool }

// New is the work tables of a database of read models.
func New(pool *pgxpool.Pool) *Tables { return &Tables{pool: pool} }

// Touch says that a worker lives. A worker does it each second, under an id of its own for each start. Rows
// of workers that have long been dead are removed.
func (t *Tables) Touch(ctx context.Context, worker string) error {
	_, err := t.pool.Exec(ctx, `WITH gone AS (DELETE FROM workers WHERE touched_at < cairn_now() - interval '1 day' AND worker <> $1)
		INSERT INTO workers (worker, touched_at) VALUES ($1, cairn_now())
		ON CONFLICT (worker) DO UPDATE SET touched_at = EXCLUDED.touched_at`, worker)
	return wrap("touch", err)
}

// Alive reports whether a worker's last touch was less than DeadAfter ago.
func (t *Tables) Alive(ctx context.Context, worker string) (alive bool, err error) {
	err = t.pool.QueryRow(ctx, `SELECT cairn_alive($1)`, worker).Scan(&alive)
	return alive, wrap("alive", err)
}

// Leave says that a worker ends of its own accord: what it held is free at once.
func (t *Tables) Leave(ctx context.Context, worker string) error {
	_, err := t.pool.Exec(ctx, `DELETE FROM workers WHERE worker = $1`, worker)
	return wrap("leave", err)
}

// Presence is where a device is, or was last.
type Presence struct {
	Device  string
	Gateway string // the worker that holds its socket; empty: none
	Socket  string
	Journal bool
	Online  bool // it has a socket, and its gateway lives
	SeenAt  time.Time
}

// Online says that a gateway holds a device's newest socket. A device that is online through another socket
// moves to this one. Calling it again for the same socket is a sign of life.
func (t *Tables) Online(ctx context.Context, scope domain.Scope, device, gateway, socket string, journal bool) error {
	_, err := t.pool.Exec(ctx, `INSERT INTO device_presence (scope, device, gateway, socket, journal, seen_at)
		VALUES ($1, $2, $3, $4, $5, cairn_now())
		ON CONFLICT (scope, device) DO UPDATE SET gateway = EXCLUDED.gateway, socket = EXCLUDED.socket,
			journal = EXCLUDED.journal, seen_at = EXCLUDED.seen_at`, string(scope), projections.Text(device), gateway, socket, journal)
	return wrap("online", err)
}

// Offline says that a socket closed. It changes nothing where the device has a newer one.
func (t *Tables) Offline(ctx context.Context, scope domain.Scope, device, socket string) error {
	_, err := t.pool.Exec(ctx, `UPDATE device_presence SET gateway = NULL, seen_at = cairn_now()
		WHERE scope = $1 AND device = $2 AND socket = $3 AND gateway IS NOT NULL`, string(scope), projections.Text(device), socket)
	return wrap("offline", err)
}

// Presence are the scope's devices, the one seen last first.
func (t *Tables) Presence(ctx context.Context, scope domain.Scope) ([]Presence, error) {
	rows, err := t.pool.Query(ctx, `SELECT device, coalesce(gateway, ''), socket, journal,
			gateway IS NOT NULL AND cairn_alive(gateway), seen_at
		FROM device_presence WHERE scope = $1 ORDER BY seen_at DESC, device`, string(scope))
	if err != nil {
		return nil, wrap("presence", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Presence, error) {
		var p Presence
		err := row.Scan(&p.Device, &p.Gateway, &p.Socket, &p.Journal, &p.Online, &p.SeenAt)
		p.SeenAt = p.SeenAt.UTC()
		return p, err
	})
	return found, wrap("presence", err)
}

// Socket is a socket of a device.
type Socket struct {
	Scope  domain.Scope
	Device string
	ID     string
}

// Outdated are those of the sockets whose device has another one by now.
func (t *Tables) Outdated(ctx context.Context, sockets []Socket) ([]Socket, error) {
	scopes, devices, ids := make([]string, len(sockets)), make([]string, len(sockets)), make([]string, len(sockets))
	for i, s := range sockets {
		scopes[i], devices[i], ids[i] = string(s.Scope), projections.Text(s.Device), s.ID
	}
	rows, err := t.pool.Query(ctx, `SELECT asked.n FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS asked (scope, device, socket, n)
		JOIN device_presence AS p ON p.scope = asked.scope AND p.device = asked.device WHERE p.socket <> asked.socket`, scopes, devices, ids)
	if err != nil {
		return nil, wrap("outdated", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Socket, error) {
		var n int
		err := row.Scan(&n)
		if err != nil {
			return Socket{}, err
		}
		return sockets[n-1], nil
	})
	return found, wrap("outdated", err)
}

// LastSeen is the device of the scope that was seen last; those that are online come before those that
// are not. ok is false where the user has none.
func (t *Tables) LastSeen(ctx context.Context, scope domain.Scope) (device string, ok bool, err error) {
	err = t.pool.QueryRow(ctx, `SELECT device FROM device_presence WHERE scope = $1
		ORDER BY (gateway IS NOT NULL AND cairn_alive(gateway)) DESC, seen_at DESC, device LIMIT 1`, string(scope)).Scan(&device)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return device, err == nil, wrap("last seen", err)
}

// Paused reports whether effects and timers are paused, and since when.
func (t *Tables) Paused(ctx context.Context) (paused bool, since time.Time, err error) {
	var at *time.Time
	err = t.pool.QueryRow(ctx, `SELECT paused, paused_at FROM effects_switch`).Scan(&paused, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, time.Time{}, nil
	}
	if at != nil {
		since = at.UTC()
	}
	return paused, since, wrap("paused", err)
}

// Pause stops workers from taking effects and firing timers, in the whole installation. What they hold goes on.
func (t *Tables) Pause(ctx context.Context) error { return t.set(ctx, true) }

// Resume undoes Pause, and wakes the workers.
func (t *Tables) Resume(ctx context.Context) error { return t.set(ctx, false) }

func (t *Tables) set(ctx context.Context, paused bool) error {
	_, err := t.pool.Exec(ctx, `INSERT INTO effects_switch (paused, paused_at) VALUES ($1, CASE WHEN $1 THEN cairn_now() END)
		ON CONFLICT (one) DO UPDATE SET paused = EXCLUDED.paused,
			paused_at = CASE WHEN EXCLUDED.paused THEN coalesce(effects_switch.paused_at, EXCLUDED.paused_at) END`, paused)
	if err == nil {
		err = projections.Wake(ctx, t.pool, "open_effects", "timers")
	}
	return wrap("switch", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("work: %s: %w", what, err)
}
