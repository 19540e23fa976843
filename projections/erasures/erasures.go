// Package erasures is the read model of scopes that were erased. After the vault was restored from a
// back-up they are applied to it again before anything is served.
package erasures

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// Name is the model's name.
const Name = "erasures"

// Erasure is one erased scope.
type Erasure struct {
	Scope    domain.Scope
	ErasedAt time.Time
	Position uint64
}

// Model reads the table.
type Model struct{ db *projections.DB }

// New is the model on a database of read models.
func New(db *projections.DB) *Model { return &Model{db: db} }

// List are all erased scopes, in the order of their names.
func (m *Model) List(ctx context.Context) ([]Erasure, error) {
	found, err := projections.Rows(ctx, m.db, Name, `SELECT scope, erased_at, position FROM {erasures} WHERE {live} ORDER BY scope`, func(row pgx.CollectableRow) (Erasure, error) {
		var e Erasure
		var scope string
		var position int64
		err := row.Scan(&scope, &e.ErasedAt, &position)
		e.Scope, e.Position, e.ErasedAt = domain.Scope(scope), uint64(position), e.ErasedAt.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("erasures: %w", err)
	}
	return found, nil
}

// Scopes are the erased scopes alone.
func (m *Model) Scopes(ctx context.Context) ([]domain.Scope, error) {
	found, err := m.List(ctx)
	scopes := make([]domain.Scope, len(found))
	for i, e := range found {
		scopes[i] = e.Scope
	}
	return scopes, err
}
