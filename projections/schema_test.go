package projections_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/projections/pgtest"
)

// TestNoUniqueKeyAcrossScopes: a key of a read model that is unique, or refers to another table, begins with
// the scope, so that one scope's rows can't stop another's.
func TestNoUniqueKeyAcrossScopes(t *testing.T) {
	pool := pgtest.Read(t)
	rows, err := pool.Query(t.Context(), `SELECT c.relname, i.relname, pg_get_indexdef(x.indexrelid, 1, false)
		FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
		WHERE x.indisunique AND c.relname IN (SELECT t || '_' || generation FROM projection_generations, unnest(tables) AS t)`)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for rows.Next() {
		var table, index, first string
		if err := rows.Scan(&table, &index, &first); err != nil {
			t.Fatal(err)
		}
		seen++
		if strings.Trim(first, `"`) != "scope" {
			t.Errorf("%s of %s is unique across scopes: it begins with %s", index, table, first)
		}
	}
	if err := rows.Err(); err != nil || seen < len(tables) {
		t.Fatalf("%d unique keys of %d tables were looked at (%v)", seen, len(tables), err)
	}
	var foreign int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_constraint WHERE contype = 'f'`).Scan(&foreign); err != nil || foreign != 0 {
		t.Fatalf("there are %d foreign keys (%v)", foreign, err)
	}
}
