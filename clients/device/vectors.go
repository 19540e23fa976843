package device

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

const defaultNearest = 10

// Nearest is a row of the vector store and its cosine similarity.
type Nearest struct {
	ID      string  `json:"id"`
	Content string  `json:"content"`
	Score   float64 `json:"score"`
}

func (s *Store) vectorUpsert(ctx context.Context, tx *sql.Tx, c Call) (any, error) {
	var data struct {
		ID        string  `json:"id"`
		ProjectID *string `json:"projectId"`
		Content   string  `json:"content"`
	}
	if err := json.Unmarshal(c.Data, &data); err != nil || data.ID == "" {
		return nil, fmt.Errorf("vector_upsert needs data.id")
	}
	if len(c.Vector) == 0 {
		return nil, fmt.Errorf("vector_upsert needs a vector")
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO vectors (id, projectId, content, vector) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET projectId = excluded.projectId, content = excluded.content, vector = excluded.vector`,
		data.ID, data.ProjectID, data.Content, pack(c.Vector))
	return map[string]any{"ok": true}, err
}

// vectorSearch compares with every row: a device holds thousands, not millions.
func (s *Store) vectorSearch(ctx context.Context, tx *sql.Tx, c Call) (any, error) {
	if len(c.Vector) == 0 {
		return nil, fmt.Errorf("vector_search needs a vector")
	}
	text, args := "SELECT id, content, vector FROM vectors", []any{}
	if raw, ok := c.Filters["projectId"]; ok {
		var project string
		if err := json.Unmarshal(raw, &project); err != nil {
			return nil, fmt.Errorf("filter projectId: %w", err)
		}
		text, args = text+" WHERE projectId = ?", append(args, project)
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []Nearest{}
	for rows.Next() {
		var n Nearest
		var packed []byte
		if err := rows.Scan(&n.ID, &n.Content, &packed); err != nil {
			return nil, err
		}
		vector := unpack(packed)
		if len(vector) != len(c.Vector) {
			continue // of another embedder: not comparable
		}
		n.Score = cosine(vector, c.Vector)
		found = append(found, n)
	}
	slices.SortFunc(found, func(a, b Nearest) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	limit := cmp.Or(c.Limit, defaultNearest)
	return map[string]any{"results": found[:min(len(found), max(limit, 0))]}, rows.Err()
}

func pack(vector []float32) []byte {
	packed := make([]byte, 0, 4*len(vector))
	for _, f := range vector {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(f))
	}
	return packed
}

func unpack(packed []byte) []float32 {
	vector := make([]float32, len(packed)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
	return vector
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}
