package load

import (
	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Done records what a device of a scope did. A row that is made twice is two rows; every other action may be done again.
func Done(recorder *history.Recorder, scope domain.Scope) func(device.Call) {
	return func(c device.Call) {
		if c.Action == "insert" {
			recorder.ExecutedOnce(scope, c.ID)
			return
		}
		recorder.Executed(scope, c.ID)
	}
}
