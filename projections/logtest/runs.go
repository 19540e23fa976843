package logtest

import (
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// On are facts of one stream.
func On(stream domain.Stream, events ...any) []domain.Fact {
	facts := make([]domain.Fact, len(events))
	for i, e := range events {
		facts[i] = domain.Fact{Stream: stream, Event: e}
	}
	return facts
}

// Post opens nothing and begins a run of a thread up to its first turn.
func Post(stream domain.Stream, run, device string) []domain.Fact {
	return On(stream,
		thread.MessagePosted{RunID: run, Channel: thread.Home, DeviceID: device},
		thread.RunStarted{RunID: run, Channel: thread.Home, DeviceID: device, MessageVersion: 1},
		thread.RouteRequested{RunID: run, Attempt: 1},
	)
}

// DeviceStep is a device's step of a run's only call.
func DeviceStep(run, device, action string, repeatable bool) thread.Step {
	return thread.Step{
		CallID: thread.CallID(run, 1, 0), RunID: run, Number: 1, Tool: "create_task", Executor: thread.OnDevice,
		Action: action, Table: "tasks", DeviceID: device, Repeatable: repeatable,
	}
}
