package device

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Row is a row of a table, by column.
type Row = map[string]any

// Call is a tool_call frame, or one of what is asked outside a run: a data_request or a mutation.
type Call struct {
	Type     string                     `json:"type"`
	ID       string                     `json:"id"`
	Action   string                     `json:"action"`
	Table    string                     `json:"table,omitempty"`
	Data     json.RawMessage            `json:"data,omitempty"`
	Filters  map[string]json.RawMessage `json:"filters,omitempty"`
	Vector   []float32                  `json:"vector,omitempty"`
	Limit    int                        `json:"limit,omitempty"`
	RunID    string                     `json:"run_id,omitempty"`
	Seq      uint64                     `json:"seq,omitempty"`
	Deadline json.RawMessage            `json:"deadline,omitempty"`
	// Traceparent is the trace that the call is part of (W3C Trace Context); the answer says it again.
	Traceparent string `json:"traceparent,omitempty"`
}

// Answer is what a tool_result frame carries besides type and id: one of row, rows, results, deleted, ok, error.
type Answer = json.RawMessage

// tables are the columns of each table that a call may name, without id, createdAt and updatedAt.
var tables = map[string][]string{
	"tasks":        {"projectId", "title", "description", "status", "priority", "assignee", "dueDate", "isAiSuggested", "isApproved"},
	"projects":     {"clientId", "name", "status", "aiSummary"},
	"checkpoints":  {"projectId", "title", "date", "isAiSuggested", "isApproved"},
	"notes":        {"projectId", "title", "content"},
	"taskComments": {"taskId", "author", "content"},
	"clients":      {"parentId", "name", "industry"},
}

// perform does a call inside tx. What is wrong with the call is an error in words.
func (s *Store) perform(ctx context.Context, tx *sql.Tx, c Call) (any, error) {
	if c.Type == "data_request" && c.Action != "select" && c.Action != "get" {
		return nil, fmt.Errorf("a data_request only reads, and %q is no reading", c.Action)
	}
	switch c.Action {
	case "vector_upsert":
		return s.vectorUpsert(ctx, tx, c)
	case "vector_search":
		return s.vectorSearch(ctx, tx, c)
	case "select", "get", "insert", "update", "delete":
	default:
		return nil, fmt.Errorf("unknown action %q", c.Action)
	}
	if _, ok := tables[c.Table]; !ok {
		return nil, fmt.Errorf("unknown table %q", c.Table)
	}
	if c.Action == "select" {
		where, order, args, err := conditions(c)
		if err != nil {
			return nil, err
		}
		rows, err := query(ctx, tx, "SELECT * FROM "+c.Table+where+order, args...)
		return map[string]any{"rows": rows}, err
	}
	var data map[string]any
	if err := decodeNumbers(c.Data, &data); err != nil {
		return nil, fmt.Errorf("data is not an object: %w", err)
	}
	switch c.Action {
	case "insert":
		return s.insert(ctx, tx, c.Table, data)
	case "update":
		return s.update(ctx, tx, c.Table, data)
	}
	id, err := identifier(data)
	if err != nil {
		return nil, err
	}
	if c.Action == "get" {
		row, err := one(ctx, tx, c.Table, id)
		return map[string]any{"row": row}, err
	}
	return remove(ctx, tx, c.Table, id)
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, table string, data map[string]any) (any, error) {
	for _, column := range []string{"id", "createdAt", "updatedAt"} {
		if _, ok := data[column]; ok {
			return nil, fmt.Errorf("%s is made by the device", column)
		}
	}
	if err := known(table, data); err != nil {
		return nil, err
	}
	now, id := s.now().UnixMilli(), uuid.NewString()
	values := maps.Clone(data)
	if values == nil {
		values = map[string]any{}
	}
	values["id"], values["createdAt"] = id, now
	if table == "notes" {
		values["updatedAt"] = now
	}
	columns, args := split(values)
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES ("+marks+")", args...); err != nil {
		return nil, err
	}
	row, err := one(ctx, tx, table, id)
	return map[string]any{"row": row}, err
}

func (s *Store) update(ctx context.Context, tx *sql.Tx, table string, data map[string]any) (any, error) {
	id, err := identifier(data)
	if err != nil {
		return nil, err
	}
	updates, ok := data["updates"].(map[string]any)
	if !ok || len(updates) == 0 {
		return nil, fmt.Errorf("data.updates must name what to change")
	}
	if err := known(table, updates); err != nil {
		return nil, err
	}
	values := maps.Clone(updates)
	if table == "notes" {
		values["updatedAt"] = s.now().UnixMilli()
	}
	columns, args := split(values)
	result, err := tx.ExecContext(ctx, "UPDATE "+table+" SET "+strings.Join(columns, " = ?, ")+" = ? WHERE id = ?", append(args, id)...)
	if err != nil {
		return nil, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return nil, fmt.Errorf("no row %s in %s", id, table)
	}
	row, err := one(ctx, tx, table, id)
	return map[string]any{"row": row}, err
}

func remove(ctx context.Context, tx *sql.Tx, table, id string) (any, error) {
	result, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return nil, err
	}
	if table == "notes" {
		if _, err := tx.ExecContext(ctx, "DELETE FROM vectors WHERE id = ?", id); err != nil {
			return nil, err
		}
	}
	return map[string]any{"deleted": n > 0}, nil
}

func identifier(data map[string]any) (string, error) {
	id, _ := data["id"].(string)
	if id == "" {
		return "", fmt.Errorf("data.id is missing")
	}
	return id, nil
}

func known(table string, values map[string]any) error {
	for column := range values {
		if !slices.Contains(tables[table], column) {
			return fmt.Errorf("%s has no column %q that may be set", table, column)
		}
	}
	return nil
}

// split gives columns and values in a fixed order; JSON's true and false are 1 and 0 here.
func split(values map[string]any) (columns []string, args []any) {
	for _, column := range slices.Sorted(maps.Keys(values)) {
		columns = append(columns, column)
		args = append(args, bound(values[column]))
	}
	return columns, args
}

func bound(value any) any {
	switch v := value.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any, map[string]any:
		text, _ := json.Marshal(v)
		return string(text)
	}
	return value
}

func decodeNumbers(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return fmt.Errorf("it is missing")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}
