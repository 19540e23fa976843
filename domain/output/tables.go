package output

import "encoding/json"

// Tables are the rows that a run's tools returned, by table. References to entities are resolved from
// them, never from what the model says of a row. The zero value holds none.
type Tables struct {
	asked map[string]string // step id -> the table it is about
	held  map[string]*rows
}

// rows stand in the order they first came; one that came again replaces the older one in its place.
type rows struct {
	ids  []string
	byID map[string]json.RawMessage
}

// Asked remembers which table a step is about.
func (t *Tables) Asked(step, table string) {
	if table == "" {
		return
	}
	if t.asked == nil {
		t.asked = map[string]string{}
	}
	t.asked[step] = table
}

// Answered takes the rows of a device's answer to a step: those of its "rows", then its "row". What is no
// answer, or has no id, is no row.
func (t *Tables) Answered(step string, device json.RawMessage) {
	table, ok := t.asked[step]
	if !ok || len(device) == 0 {
		return
	}
	var answer struct {
		Row  json.RawMessage   `json:"row"`
		Rows []json.RawMessage `json:"rows"`
	}
	if json.Unmarshal(device, &answer) != nil {
		return
	}
	for _, row := range append(answer.Rows, answer.Row) {
		t.add(table, row)
	}
}

func (t *Tables) add(table string, row json.RawMessage) {
	var key struct {
		ID string `json:"id"`
	}
	if len(row) == 0 || json.Unmarshal(row, &key) != nil || key.ID == "" {
		return
	}
	if t.held == nil {
		t.held = map[string]*rows{}
	}
	to, ok := t.held[table]
	if !ok {
		to = &rows{byID: map[string]json.RawMessage{}}
		t.held[table] = to
	}
	if _, known := to.byID[key.ID]; !known {
		to.ids = append(to.ids, key.ID)
	}
	to.byID[key.ID] = row
}

// Rows are the full rows of an entity ("task", "project", "note" or "checkpoint") with these ids, in
// their order; all of them where there are no ids.
func (t *Tables) Rows(entity string, ids []string) []json.RawMessage {
	from, ok := t.held[entity+"s"]
	if !ok {
		return nil
	}
	if len(ids) == 0 {
		ids = from.ids
	}
	var found []json.RawMessage
	for _, id := range ids {
		if row, ok := from.byID[id]; ok {
			found = append(found, row)
		}
	}
	return found
}
