package live

import (
	"encoding/json"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// Parsed is a request under test: the command that it becomes, and the form by which its repeats are known.
type Parsed struct {
	Command string
	Minted  bool
	Post    thread.PostMessage
	Body    []byte
}

// Parse understands a request's frame, as of a device that said hello.
func Parse(kind string, frame []byte, scope domain.Scope) (Parsed, error) {
	r, err := parse(kind, frame, scope, &hello{DeviceID: "d", device: "d", Protocol: 3})
	if err != nil {
		return Parsed{}, err
	}
	return Parsed{r.command, r.minted, r.post, r.body}, nil
}

// Answered is a device's answer under test.
type Answered struct {
	ID        string
	Body      json.RawMessage
	Failure   thread.FailureReason
	Mutations []thread.Mutation
}

// Answer reads a tool_result and judges it as the answer to an action on the table tasks.
func Answer(frame []byte, action string) (Answered, error) {
	a, err := readAnswer("tool_result", frame)
	if err != nil {
		return Answered{}, err
	}
	a.judge(&call{updated: "row", step: thread.Step{Action: action, Table: "tasks"}})
	return Answered{a.id, a.body, a.failure, a.mutations}, nil
}

// Wrong says what of a device_hello can't be.
func Wrong(frame []byte) (string, error) {
	var h hello
	err := json.Unmarshal(frame, &h)
	return h.wrong(), err
}

// CallFrame is the tool_call of a step with these fields.
func CallFrame(fields json.RawMessage) ([]byte, error) {
	return callFrame(&call{id: "r.1.0.1", step: thread.Step{Action: "insert", Table: "tasks", RunID: "r"}}, fields, "soon")
}
