package live

import (
	"encoding/json"
	"strings"

	"github.com/cairnhq/cairn/domain/thread"
)

// tables are the rows that a run's tools returned, by table, for references to entities.
type tables struct {
	asked  map[string]string // step id -> the table it is about
	tables map[string]*table
}

// table holds rows in the order they first came; one that came again replaces the older one in its place.
type table struct {
	ids  []string
	rows map[string]json.RawMessage
}

func newTables() tables {
	return tables{asked: map[string]string{}, tables: map[string]*table{}}
}

// tableOf is where an entity of a reference lives on the device.
func tableOf(entity string) string {
	switch entity {
	case "task":
		return "tasks"
	case "project":
		return "projects"
	case "note":
		return "notes"
	case "checkpoint":
		return "checkpoints"
	}
	return ""
}

// step remembers which table a step of the run is about.
func (t tables) step(run string, s thread.Step) {
	if s.RunID == run && s.Table != "" {
		t.asked[thread.StepID(s.CallID, s.Number)] = s.Table
	}
}

// result takes the rows of a device's answer to a step.
func (t tables) result(step string, answer json.RawMessage) {
	name, ok := t.asked[step]
	if !ok || len(answer) == 0 {
		return
	}
	var rows struct {
		Row  json.RawMessage   `json:"row"`
		Rows []json.RawMessage `json:"rows"`
	}
	if json.Unmarshal(answer, &rows) != nil {
		return
	}
	if len(rows.Row) > 0 {
		rows.Rows = append(rows.Rows, rows.Row)
	}
	for _, row := range rows.Rows {
		t.add(name, row)
	}
}

func (t tables) add(name string, row json.RawMessage) {
	var key struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(row, &key) != nil || key.ID == "" {
		return
	}
	to, ok := t.tables[name]
	if !ok {
		to = &table{rows: map[string]json.RawMessage{}}
		t.tables[name] = to
	}
	if _, known := to.rows[key.ID]; !known {
		to.ids = append(to.ids, key.ID)
	}
	to.rows[key.ID] = row
}

// rows are the rows of an entity with these ids, in their order; all of them where ids is nil.
func (t tables) rows(entity string, ids []string) []json.RawMessage {
	from, ok := t.tables[tableOf(entity)]
	if !ok {
		return nil
	}
	if ids == nil {
		ids = from.ids
	}
	var found []json.RawMessage
	for _, id := range ids {
		if row, ok := from.rows[id]; ok {
			found = append(found, row)
		}
	}
	return found
}

// runOfCall is the run that a call id "{run}.{turn}.{index}" belongs to.
func runOfCall(call string) string {
	run, _, _ := strings.Cut(call, ".")
	return run
}
