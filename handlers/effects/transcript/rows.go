package transcript

import (
	"encoding/json"
)

// Rows are the rows that a run's tools returned, by table, in the order in which they came first; one that
// came again stands in its old place. References to entities are resolved from them, never from the model.
type Rows map[string]*Table

// Table are the rows of one table.
type Table struct {
	ids  []string
	rows map[string]json.RawMessage
}

func (r Rows) add(table string, answer json.RawMessage) {
	var a struct {
		Row  json.RawMessage   `json:"row"`
		Rows []json.RawMessage `json:"rows"`
	}
	if table == "" || len(answer) == 0 || json.Unmarshal(answer, &a) != nil {
		return
	}
	if len(a.Row) > 0 {
		a.Rows = append(a.Rows, a.Row)
	}
	for _, row := range a.Rows {
		var key struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(row, &key) != nil || key.ID == "" {
			continue
		}
		t := r[table]
		if t == nil {
			t = &Table{rows: map[string]json.RawMessage{}}
			r[table] = t
		}
		if _, known := t.rows[key.ID]; !known {
			t.ids = append(t.ids, key.ID)
		}
		t.rows[key.ID] = row
	}
}

// Of are the rows of an entity (task, project, note, checkpoint) with these ids, in the order of the ids;
// without ids, all of them.
func (r Rows) Of(entity string, ids []string) []json.RawMessage {
	t := r[entity+"s"]
	if t == nil {
		return nil
	}
	if len(ids) == 0 {
		ids = t.ids
	}
	var found []json.RawMessage
	for _, id := range ids {
		if row, ok := t.rows[id]; ok {
			found = append(found, row)
		}
	}
	return found
}
