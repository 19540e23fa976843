package runs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
)

// ErrCursor is a text that is no cursor of ByAgent.
var ErrCursor = errors.New("malformed cursor")

type cursor struct {
	Posted time.Time `json:"p"`
	Run    string    `json:"r"`
}

// unindexed is how many runs are looked through at once where the table does not know their agents.
const unindexed = 500

// ByAgent are the runs of an agent, the newest first, at most limit. The cursor of the first page is empty; next is empty
// on the last page.
func (m *Model) ByAgent(ctx context.Context, scope domain.Scope, agent, after string, limit int) (page []Run, next string, err error) {
	// A first page is one before the end of time: one condition for all pages, so that every plan goes by the index.
	from := cursor{Posted: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	if after != "" {
		raw, err := base64.RawURLEncoding.DecodeString(after)
		if err != nil || json.Unmarshal(raw, &from) != nil {
			return nil, "", ErrCursor
		}
	}
	limit = max(limit, 1)
	for {
		// Revision 1 has no column for it. Until the next is filled and swapped, which happens by itself, its records say it.
		indexed, ask := false, limit+1-len(page)
		found, err := projections.RowsOf(ctx, m.db, Name, func(g projections.Generation) string {
			sql := `SELECT record FROM {runs} WHERE {live} AND scope = $1 AND (created_at, run) < ($3, $4)`
			if indexed = g.Revision >= indexedSince; indexed {
				return sql + ` AND agent = $2 ORDER BY created_at DESC, run DESC LIMIT $5`
			}
			return sql + fmt.Sprintf(` AND $2::text IS NOT NULL ORDER BY created_at DESC, run DESC LIMIT greatest($5, %d)`, unindexed)
		}, scanRecord, string(scope), projections.Text(agent), from.Posted, from.Run, ask)
		if err != nil {
			return nil, "", fmt.Errorf("runs: of agent %s: %w", agent, err)
		}
		for _, r := range found {
			if projections.Text(r.Agent) == projections.Text(agent) {
				page = append(page, r)
			}
		}
		if len(page) > limit {
			page = page[:limit]
			next, err := place(page[limit-1])
			return page, next, err
		}
		if indexed || len(found) < unindexed {
			return page, "", nil
		}
		last := found[len(found)-1]
		from = cursor{Posted: last.PostedAt, Run: projections.Text(last.ID)}
	}
}

func place(r Run) (string, error) {
	text, err := json.Marshal(cursor{Posted: r.PostedAt, Run: projections.Text(r.ID)})
	return base64.RawURLEncoding.EncodeToString(text), err
}
