package live

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cairnhq/cairn/domain/thread"
	asked "github.com/cairnhq/cairn/projections/requests"
)

// maxResult is what a device's answer may have in bytes to be stored.
const maxResult = 1 << 20

// answer is a device's answer to a call, as it is recorded.
type answer struct {
	kind      string // of the frame
	id        string
	body      json.RawMessage // the frame without type, id and trace, its fields in order
	trace     string          // the traceparent of what the device did
	failure   thread.FailureReason
	words     string
	mutations []thread.Mutation
}

// readAnswer reads a tool_result or data_response frame.
func readAnswer(kind string, frame []byte) (*answer, error) {
	var fields map[string]json.RawMessage
	var head struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(frame, &fields) != nil || json.Unmarshal(frame, &head) != nil || head.ID == "" {
		return nil, fmt.Errorf("a %s needs the id of what it answers", kind)
	}
	delete(fields, "type")
	delete(fields, "id")
	return &answer{kind: kind, id: head.ID, body: canonical(encode(fields)), trace: traceparentOf(frame)}, nil
}

// fits reports whether a call is answered by such a frame: a data_response is for data requests alone, a tool_result for
// everything, since a client's journal does not keep what it answered by.
func (a *answer) fits(c *call) bool { return a.kind == "tool_result" || c.request == asked.Data }

// judge says what the answer means for the call: a result of the action's shape, or a failure.
func (a *answer) judge(c *call) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(a.body, &fields) != nil {
		a.fail(thread.BadResult, "the answer can't be read")
		return
	}
	if e, ok := fields["error"]; ok && string(e) != "null" {
		a.failure = thread.DeviceError
		return
	}
	key := shapeOf(c.step.Action)
	value, ok := fields[key]
	switch {
	case key == "":
		a.fail(thread.BadResult, fmt.Sprintf("nothing answers the action %q", c.step.Action))
	case !ok:
		a.fail(thread.BadResult, fmt.Sprintf("the answer to %s has no field %q", c.step.Action, key))
	default:
		a.check(c, bytes.TrimSpace(value))
	}
}

// shapeOf is the field that answers an action (docs/protocol.md).
func shapeOf(action string) string {
	switch action {
	case "select":
		return "rows"
	case "get", "insert", "update":
		return "row"
	case "delete":
		return "deleted"
	case "vector_upsert":
		return "ok"
	case "vector_search":
		return "results"
	}
	return ""
}

func (a *answer) check(c *call, value json.RawMessage) {
	var row struct {
		ID string `json:"id"`
	}
	switch c.step.Action {
	case "select":
		var rows []map[string]json.RawMessage
		if string(value) == "null" || json.Unmarshal(value, &rows) != nil || holdsNull(rows) {
			a.fail(thread.BadResult, "rows must be a list of rows")
		}
	case "vector_search":
		var found []*struct {
			ID      *string  `json:"id"`
			Content *string  `json:"content"`
			Score   *float64 `json:"score"`
		}
		if string(value) == "null" || json.Unmarshal(value, &found) != nil {
			a.fail(thread.BadResult, "results must be a list")
			return
		}
		for _, f := range found {
			if f == nil || f.ID == nil || f.Score == nil {
				a.fail(thread.BadResult, "each of results has id, content and score")
				return
			}
		}
	case "get", "update":
		if string(value) == "null" {
			return // no such row, and nothing changed
		}
		if json.Unmarshal(value, &row) != nil || !thread.IsRowID(row.ID) {
			a.fail(thread.BadResult, "row must be a row with an id, or null")
		} else if c.step.Action == "update" {
			a.changed(c, row.ID)
		}
	case "insert":
		if json.Unmarshal(value, &row) != nil || !thread.IsRowID(row.ID) {
			a.fail(thread.BadResult, "row must be the inserted row with its id")
			return
		}
		a.changed(c, row.ID)
	case "delete":
		did, ok := truth(value)
		if !ok {
			a.fail(thread.BadResult, "deleted must be true or false")
		} else if did && c.updated != "" {
			a.changed(c, c.updated)
		}
	case "vector_upsert":
		if did, ok := truth(value); !ok || !did {
			a.fail(thread.BadResult, "ok must be true")
		}
	}
}

func (a *answer) fail(reason thread.FailureReason, words string) { a.failure, a.words = reason, words }

func (a *answer) changed(c *call, id string) {
	a.mutations = []thread.Mutation{{Table: c.step.Table, Action: c.step.Action, ID: id}}
}

// truth reads a boolean; devices also say how many, or the id of what is gone.
func truth(value json.RawMessage) (is, ok bool) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false, false
	}
	switch v := v.(type) {
	case bool:
		return v, true
	case float64:
		return v > 0, true
	case string:
		return v != "", true
	}
	return false, false
}

func holdsNull(rows []map[string]json.RawMessage) bool {
	for _, row := range rows {
		if row == nil {
			return true
		}
	}
	return false
}
