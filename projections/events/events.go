// Package events is the read model of every event, content sealed: the timeline of a stream, catch-up of
// a scope, a run's events, and the history from which writers fold states again.
package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bytedance/sonic"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Name is the model's name.
const Name = "events"

// Model reads the table. It implements streams.History.
type Model struct {
	db          *projections.DB
	partitionOf func(domain.Scope) int32
}

// Option changes a Model under construction.
type Option func(*Model)

// PartitionedBy says in which partition a scope lies; CatchUp needs it where the log has several.
func PartitionedBy(of func(domain.Scope) int32) Option {
	return func(m *Model) { m.partitionOf = of }
}

// New is the model on a database of read models.
func New(db *projections.DB, options ...Option) *Model {
	m := &Model{db: db, partitionOf: func(domain.Scope) int32 { return 0 }}
	for _, option := range options {
		option(m)
	}
	return m
}

// Projector fills the table.
func (m *Model) Projector() projections.Projector { return projector{table()} }

type projector struct {
	table *projections.Appended[row]
}

func (projector) Name() string  { return Name }
func (projector) Revision() int { return 1 }

// codeHole is what the database says of a hole, in cairn_hole.
const codeHole = "CRN01"

// codeDouble is what it says of an event that is there already: unique_violation.
const codeDouble = "23505"

// errHole is a version or position that does not follow the one before.
var errHole = errors.New("the log has a hole or a double")

// Defect implements projections.Checker.
func (projector) Defect(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code == codeHole || said.Code == codeDouble
	}
	return errors.Is(err, errHole)
}

// Kinds implements projections.Selective: events are taken as they stand.
func (projector) Kinds() []string { return nil }

// Fills implements projections.Filler.
func (projector) Fills() {}

// Apply copies the events; a hole or a double in a stream or scope is a defect of the log and stops it.
func (p projector) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	var rows []*row
	first := newHoles()
	for r := range b.Recorded() {
		if err := first.see(r); err != nil {
			return &projections.EventError{Event: r, Err: err}
		}
		rows = append(rows, &row{Recorded: r, run: runOf(r.Data)})
	}
	if len(rows) == 0 {
		return nil
	}
	if !b.Filling() { // else Audit finds them, when the table is whole
		first.follow(b)
	}
	p.table.Add(b, rows)
	return nil
}

// follow stops the transaction where what a batch begins with does not follow what is there before the insert.
func (h *holes) follow(b projections.Batch) {
	b.Queue(`SELECT cairn_hole(u.scope || ' ' || u.stream || ' version ' || u.version)
		  FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (scope, stream, version)
		 WHERE u.version > 1 AND NOT EXISTS (
		       SELECT 1 FROM {events} e WHERE e.scope = u.scope AND e.stream = u.stream AND e.version = u.version - 1)
		 LIMIT 1`, h.scopes, h.streams, h.versions)
	b.Queue(`SELECT cairn_hole(u.scope || ' position ' || u.position)
		  FROM unnest($1::text[], $2::bigint[]) AS u (scope, position)
		 WHERE u.position > 1 AND NOT EXISTS (SELECT 1 FROM {events} e WHERE e.scope = u.scope AND e.position = u.position - 1)
		 LIMIT 1`, h.owners, h.positions)
}

// Audit implements projections.Auditor: every stream has its versions, and every scope its positions, from 1 on without a gap.
// That none is there twice the keys see to.
func (projector) Audit(ctx context.Context, q projections.Querier, g projections.Generation) error {
	var hole *string
	err := q.QueryRow(ctx, g.Expand(`SELECT coalesce(
		(SELECT scope || ' ' || stream FROM {events} GROUP BY scope, stream HAVING count(*) <> max(version) LIMIT 1),
		(SELECT scope FROM {events} GROUP BY scope HAVING count(*) <> max(position) LIMIT 1))`)).Scan(&hole)
	if err != nil {
		return fmt.Errorf("events: audit: %w", err)
	}
	if hole != nil {
		return fmt.Errorf("events: audit: %w in %s", errHole, *hole)
	}
	return nil
}

// holes checks that versions and positions follow each other within a batch, and notes what it begins with.
type holes struct {
	versionOf       map[streams.StreamKey]uint64
	positionOf      map[domain.Scope]uint64
	scopes, streams []string
	versions        []int64
	owners          []string
	positions       []int64
}

func newHoles() *holes {
	return &holes{
		versionOf: map[streams.StreamKey]uint64{}, positionOf: map[domain.Scope]uint64{},
		scopes: []string{}, streams: []string{}, versions: []int64{}, owners: []string{}, positions: []int64{},
	}
}

func (h *holes) see(r streams.Recorded) error {
	key := streams.StreamKey{Scope: r.Scope, Stream: r.Stream}
	if last, ok := h.versionOf[key]; !ok {
		h.scopes, h.streams, h.versions = append(h.scopes, string(r.Scope)), append(h.streams, string(r.Stream)), append(h.versions, int64(r.Version))
	} else if r.Version != last+1 {
		return fmt.Errorf("%w: version %d of %s follows %d", errHole, r.Version, r.Stream, last)
	}
	h.versionOf[key] = r.Version
	if last, ok := h.positionOf[r.Scope]; !ok {
		h.owners, h.positions = append(h.owners, string(r.Scope)), append(h.positions, int64(r.Position))
	} else if r.Position != last+1 {
		return fmt.Errorf("%w: position %d of %s follows %d", errHole, r.Position, r.Scope, last)
	}
	h.positionOf[r.Scope] = r.Position
	return nil
}

// runOf is the run an event belongs to, by its clear data: its run_id, or the run that its call_id begins with.
func runOf(data []byte) *string {
	if !bytes.Contains(data, []byte(`"run_id"`)) && !bytes.Contains(data, []byte(`"call_id"`)) {
		return nil
	}
	var of struct {
		Run  string `json:"run_id"`
		Call string `json:"call_id"`
	}
	if err := wire.Unmarshal(data, &of); err != nil {
		return nil
	}
	run := of.Run
	if run == "" {
		run, _, _ = strings.Cut(of.Call, ".")
	}
	if run == "" {
		return nil
	}
	run = projections.Text(run)
	return &run
}

// wire reads data as it was written.
var wire = sonic.Config{ValidateString: true, CopyString: true, CaseSensitive: true}.Froze()
