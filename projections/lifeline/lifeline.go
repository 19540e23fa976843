// Package lifeline gives up connections to Postgres whose far side has gone without a word: a machine that lost its
// power, a firewall that forgot. It decides nothing about what was under way on them; that is tried again like after any
// lost connection.
package lifeline

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// How long is waited. None of our statements takes nearly as long as Patience without a byte of its answer.
const (
	Patience = time.Minute     // for the answer to a statement
	Pong     = 3 * time.Second // of a connection that rested in the pool
	Keep     = 20 * time.Second
)

// Attach makes the pool's connections, and those that are made from its settings, such ones. A read waits for patience at
// most, unless a deadline was set for it. Both ends notice a client whose machine is gone: the server would else hold its
// locks for more than two hours. And it ends a transaction whose client stands still within Keep, and so its row locks.
func Attach(config *pgxpool.Config, patience, pong time.Duration) {
	config.PingTimeout = pong
	params := config.ConnConfig.RuntimeParams
	params["tcp_keepalives_idle"], params["tcp_keepalives_interval"], params["tcp_keepalives_count"] = "10", "5", "3"
	params["idle_in_transaction_session_timeout"] = strconv.Itoa(int(Keep.Milliseconds()))
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: conn, patience: patience}, nil
	}
}

// ErrStalled ends a connection on which nothing comes.
var ErrStalled = errors.New("the database does not answer: the connection is given up")

// watched is a connection of which no read lasts longer than patience. Who waits longer on purpose sets a deadline.
type watched struct {
	net.Conn
	patience time.Duration

	mu       sync.Mutex
	deadline time.Time // that its user set; zero: none
}

// Read implements net.Conn.
func (w *watched) Read(b []byte) (int, error) {
	ours, err := w.limit()
	if err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(b)
	if ours && n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.unset() {
		return 0, ErrStalled // which is no time-out: those the driver takes for its user's, and keeps the connection
	}
	return n, err
}

// limit bounds the next read, and reports whether the bound is ours.
func (w *watched) limit() (ours bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deadline.IsZero() {
		return false, nil
	}
	return true, w.Conn.SetReadDeadline(time.Now().Add(w.patience))
}

func (w *watched) unset() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline.IsZero()
}

// SetDeadline implements net.Conn.
func (w *watched) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (w *watched) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return w.Conn.SetReadDeadline(t)
}
