package device

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/domain/safety"
)

// Execute does a call. What is wrong with the call itself becomes an answer with "error"; the error is the
// file's.
func (s *Store) Execute(ctx context.Context, c Call) (Answer, error) {
	var answer Answer
	err := s.inTx(ctx, func(tx *sql.Tx) (err error) {
		answer, err = s.attempt(ctx, tx, c)
		return err
	})
	return answer, wrapped(err)
}

// ExecuteOnce does a call unless the journal knows its id; then it answers what was answered before. What
// it did and the journal's entry are one transaction, so a device that dies in between did nothing.
func (s *Store) ExecuteOnce(ctx context.Context, c Call) (answer Answer, repeated bool, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		var text string
		err := tx.QueryRowContext(ctx, "SELECT answer FROM journal WHERE callId = ?", c.ID).Scan(&text)
		if err == nil && !safety.Off(safety.DeviceJournal) {
			answer, repeated = Answer(text), true
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if answer, err = s.attempt(ctx, tx, c); err != nil {
			return err
		}
		return s.note(ctx, tx, c.ID, answer)
	})
	return answer, repeated, wrapped(err)
}

// Note writes an answer that was not executed into the journal, unless it has one for that id.
func (s *Store) Note(ctx context.Context, id string, answer Answer) error {
	return wrapped(s.inTx(ctx, func(tx *sql.Tx) error { return s.note(ctx, tx, id, answer) }))
}

func (s *Store) note(ctx context.Context, tx *sql.Tx, id string, answer Answer) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO journal (callId, answer, answeredAt) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		id, string(answer), s.now().UnixMilli())
	return err
}

// attempt performs inside a savepoint: a call that fails leaves nothing, but its answer can be journaled.
func (s *Store) attempt(ctx context.Context, tx *sql.Tx, c Call) (Answer, error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT call"); err != nil {
		return nil, err
	}
	result, failed := s.perform(ctx, tx, c)
	if failed != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO call"); err != nil {
			return nil, err
		}
		result = map[string]any{"error": failed.Error()}
	}
	if _, err := tx.ExecContext(ctx, "RELEASE call"); err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// Acknowledge says that the backend has recorded the answer to a call.
func (s *Store) Acknowledge(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE journal SET acknowledgedAt = ? WHERE callId = ? AND acknowledgedAt IS NULL", s.now().UnixMilli(), id)
	return wrapped(err)
}

// Entry is a line of the journal.
type Entry struct {
	CallID string
	Answer Answer
}

// Unacknowledged are the answers that the backend has not acknowledged, oldest first.
func (s *Store) Unacknowledged(ctx context.Context) ([]Entry, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT callId, answer FROM journal WHERE acknowledgedAt IS NULL ORDER BY answeredAt, rowid")
	if err != nil {
		return nil, wrapped(err)
	}
	defer rows.Close()
	var entries []Entry
	for rows.Next() {
		var id, answer string
		if err := rows.Scan(&id, &answer); err != nil {
			return nil, wrapped(err)
		}
		entries = append(entries, Entry{CallID: id, Answer: Answer(answer)})
	}
	return entries, wrapped(rows.Err())
}

// JournalLen is the number of entries.
func (s *Store) JournalLen(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM journal").Scan(&n)
	return n, wrapped(err)
}

func (s *Store) prune(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM journal WHERE acknowledgedAt < ?", s.now().Add(-keepAcknowledged).UnixMilli())
	return err
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("device: journal: %w", err)
}
