package device

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func query(ctx context.Context, q querier, text string, args ...any) ([]Row, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	found := []Row{}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := Row{}
		for i, column := range columns {
			row[column] = values[i]
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// one is the row with that id, nil if there is none.
func one(ctx context.Context, q querier, table, id string) (Row, error) {
	rows, err := query(ctx, q, "SELECT * FROM "+table+" WHERE id = ?", id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// searched are the columns that the filter "search" looks into.
var searched = map[string][]string{
	"tasks": {"title", "description"}, "projects": {"name", "aiSummary"}, "checkpoints": {"title"},
	"notes": {"title", "content"}, "taskComments": {"content"}, "clients": {"name", "industry"},
}

// conditions turns a select's filters into SQL. A filter that the table can't have is an error in words.
func conditions(c Call) (where, order string, args []any, err error) {
	var parts []string
	order = " ORDER BY createdAt, rowid"
	for _, name := range slices.Sorted(maps.Keys(c.Filters)) {
		var value any
		if err := decodeNumbers(c.Filters[name], &value); err != nil {
			return "", "", nil, fmt.Errorf("filter %s: %w", name, err)
		}
		value = bound(value)
		if value == nil {
			return "", "", nil, fmt.Errorf("filter %s is null; absent filters are left out", name)
		}
		switch name {
		case "search":
			var either []string
			for _, column := range searched[c.Table] {
				either = append(either, column+` LIKE ? ESCAPE '\'`)
				args = append(args, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(fmt.Sprint(value))+"%")
			}
			parts = append(parts, "("+strings.Join(either, " OR ")+")")
		case "dueDateFrom", "dueDateTo":
			if c.Table != "tasks" {
				return "", "", nil, fmt.Errorf("%s has no dueDate", c.Table)
			}
			parts = append(parts, "dueDate "+map[string]string{"dueDateFrom": ">=", "dueDateTo": "<="}[name]+" ?")
			args = append(args, value)
		case "includeArchived":
			if c.Table == "projects" && !truthy(c.Filters[name]) {
				parts = append(parts, "status <> 'archived'")
			}
		case "orderBy":
			if order, err = ordering(c.Table, fmt.Sprint(value)); err != nil {
				return "", "", nil, err
			}
		default:
			if name != "id" && !slices.Contains(tables[c.Table], name) {
				return "", "", nil, fmt.Errorf("%s can't be filtered by %q", c.Table, name)
			}
			parts = append(parts, name+" = ?")
			args = append(args, value)
		}
	}
	if len(parts) > 0 {
		where = " WHERE " + strings.Join(parts, " AND ")
	}
	if c.Limit > 0 {
		order += fmt.Sprintf(" LIMIT %d", c.Limit)
	}
	return where, order, args, nil
}

func truthy(raw json.RawMessage) bool {
	switch strings.Trim(string(raw), `"`) {
	case "0", "false", "":
		return false
	}
	return true
}

// ordering reads "dueDate", "dueDate desc" or "-dueDate", in camelCase or snake_case.
func ordering(table, text string) (string, error) {
	column, direction, _ := strings.Cut(strings.TrimSpace(text), " ")
	if rest, ok := strings.CutPrefix(column, "-"); ok {
		column, direction = rest, "desc"
	}
	words := strings.Split(column, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	column = strings.Join(words, "")
	if column != "createdAt" && (column != "updatedAt" || table != "notes") && !slices.Contains(tables[table], column) {
		return "", fmt.Errorf("%s can't be ordered by %q", table, column)
	}
	direction = strings.ToUpper(strings.TrimSpace(direction))
	if direction == "" {
		direction = "ASC"
	}
	if direction != "ASC" && direction != "DESC" {
		return "", fmt.Errorf("orderBy %q: say asc or desc", text)
	}
	if column == "priority" {
		column = "CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END"
	}
	return " ORDER BY " + column + " " + direction + " NULLS LAST, createdAt, rowid", nil
}
