// Package writerstates keeps what a writer needs between batches in Postgres: states, scopes, answers, and
// the checkpoint they hold for. It implements streams.States; only the log says who leads.
package writerstates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// States implements streams.States.
type States struct{ pool *pgxpool.Pool }

// New is the writer states of a database of read models.
func New(pool *pgxpool.Pool) *States { return &States{pool: pool} }

// load is one statement, so that rows and checkpoint are of one moment. What was asked comes back by its
// place in the question. The columns are shared by four sorts of rows. LIMIT 1 keeps each look-up one descent of
// the primary key: without it a plan made while the tables were small joins them whole.
const load = `
	SELECT 0 AS sort, 0::bigint AS ord, next_offset AS a, era AS b, lead AS c, after_era AS d, command_offset AS e,
	       closed AS flag, writer AS text, NULL::bytea AS x, NULL::bytea AS y, NULL::bytea AS z
	  FROM writer_checkpoints WHERE partition = $1
	UNION ALL
	SELECT 1, k.ord, s.version, s.fold, 0, 0, 0, false, '', s.hash, s.state, NULL
	  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (scope, stream, ord),
	       LATERAL (SELECT * FROM writer_states w WHERE w.scope = k.scope AND w.stream = k.stream LIMIT 1) s
	UNION ALL
	SELECT 2, k.ord, s.position, 0, 0, 0, 0, s.erased, s.decided_at, NULL, NULL, NULL
	  FROM unnest($4::text[]) WITH ORDINALITY AS k (scope, ord),
	       LATERAL (SELECT * FROM writer_scopes w WHERE w.scope = k.scope LIMIT 1) s
	UNION ALL
	SELECT 3, k.ord, s.position, s.era, s.partition, s.log_offset, 0, false, s.decided_at, s.fingerprint, s.rejected, s.heads
	  FROM unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS k (scope, command, ord),
	       LATERAL (SELECT * FROM answers w WHERE w.scope = k.scope AND w.command = k.command LIMIT 1) s`

// Load implements streams.States.
func (s *States) Load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	snapshot := streams.Snapshot{Checkpoint: streams.Start()}
	streamKeys, commands := unique(what.Streams), unique(what.Commands)
	scopes := unique(what.Scopes)
	owners, names := make([]string, len(streamKeys)), make([]string, len(streamKeys))
	for i, key := range streamKeys {
		owners[i], names[i] = string(key.Scope), string(key.Stream)
	}
	askers, ids := make([]string, len(commands)), make([][]byte, len(commands))
	for i, key := range commands {
		askers[i], ids[i] = string(key.Scope), packed(key.ID)
	}
	rows, err := s.pool.Query(ctx, load, partition, owners, names, texts(scopes), askers, ids)
	if err != nil {
		return snapshot, fmt.Errorf("writer states: load: %w", err)
	}
	var r row
	_, err = pgx.ForEachRow(rows, r.targets(), func() error {
		switch i := r.ord - 1; r.sort {
		case 0:
			snapshot.Checkpoint = r.checkpoint()
		case 1:
			snapshot.States = append(snapshot.States, streams.StateRow{
				Scope: streamKeys[i].Scope, Stream: streamKeys[i].Stream, Version: uint64(r.a), Fold: int(r.b), Hash: r.x, State: r.y,
			})
		case 2:
			snapshot.Scopes = append(snapshot.Scopes, streams.ScopeRow{Scope: scopes[i], Position: uint64(r.a), DecidedAt: r.text, Erased: r.flag})
		case 3:
			answer, err := r.answer(commands[i])
			if err != nil {
				return err
			}
			snapshot.Answers = append(snapshot.Answers, answer)
		}
		return nil
	})
	if err != nil {
		return snapshot, fmt.Errorf("writer states: load: %w", err)
	}
	return snapshot, nil
}

func unique[K comparable](keys []K) []K {
	seen := make(map[K]bool, len(keys))
	out := make([]K, 0, len(keys))
	for _, key := range keys {
		if !seen[key] {
			seen[key] = true
			out = append(out, key)
		}
	}
	return out
}

func texts(scopes []domain.Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

// row is one row of load.
type row struct {
	sort          int32
	ord           int64
	a, b, c, d, e int64
	flag          bool
	text          string
	x, y, z       []byte
}

func (r *row) targets() []any {
	return []any{&r.sort, &r.ord, &r.a, &r.b, &r.c, &r.d, &r.e, &r.flag, &r.text, &r.x, &r.y, &r.z}
}

func (r *row) checkpoint() streams.Checkpoint {
	return streams.Checkpoint{Next: r.a, Acceptance: streams.Acceptance{
		Era: int(r.b), Lead: r.c, Writer: r.text, Closed: r.flag, After: streams.CommandPlace{Era: int(r.d), Offset: r.e},
	}}
}

func (r *row) answer(key streams.CommandKey) (streams.AnswerRow, error) {
	a := streams.AnswerRow{
		Scope: key.Scope, CommandID: key.ID, Fingerprint: r.x, Position: uint64(r.a), Era: int(r.b), Partition: int32(r.c), Offset: r.d, DecidedAt: r.text,
	}
	if r.y != nil {
		if err := json.Unmarshal(r.y, &a.Rejected); err != nil {
			return a, fmt.Errorf("rejection of %s: %w", key.ID, err)
		}
	}
	var err error
	if a.Heads, err = unpackHeads(r.z); err != nil {
		return a, fmt.Errorf("heads of %s: %w", key.ID, err)
	}
	return a, nil
}

// packed is a command id in as few bytes as it takes: 16 for a UUID in its usual form, else its text after a
// byte that makes it longer or shorter than 16.
func packed(id string) []byte {
	if u, err := uuid.Parse(id); err == nil && u.String() == id {
		return u[:]
	}
	text := append([]byte("="), id...)
	if len(text) == len(uuid.UUID{}) {
		text = append([]byte("="), text...)
	}
	return text
}

// packHeads is a list of versions and streams, each as text.
func packHeads(heads []streams.Head) []byte {
	var out []byte
	for _, h := range heads {
		out = fmt.Appendf(out, "%d %s\n", h.Version, h.Stream)
	}
	return out
}

func unpackHeads(b []byte) ([]streams.Head, error) {
	var heads []streams.Head
	for line := range bytes.Lines(b) {
		var h streams.Head
		if _, err := fmt.Sscanf(string(line), "%d %s\n", &h.Version, &h.Stream); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, nil
}
