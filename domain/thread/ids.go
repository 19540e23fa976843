package thread

import (
	"fmt"
	"strconv"
	"strings"
)

// RouteEffect is the effect id of a RouteRequested.
func RouteEffect(run string, attempt int) string { return fmt.Sprintf("%s.route.%d", run, attempt) }

// TurnEffect is the effect id of a TurnRequested.
func TurnEffect(run string, turn, attempt int) string {
	return fmt.Sprintf("%s.turn.%d.%d", run, turn, attempt)
}

// CallID names the call of a turn at an index from 0.
func CallID(run string, turn, index int) string { return fmt.Sprintf("%s.%d.%d", run, turn, index) }

// RunOf is the run that a call, or a step of one, belongs to.
func RunOf(call string) string {
	run, _, _ := strings.Cut(call, ".")
	return run
}

// StepID is the effect id of a step, and the id of the device's tool_call frame.
func StepID(call string, step int) string { return fmt.Sprintf("%s.%d", call, step) }

// ParseStepID is the inverse of StepID.
func ParseStepID(id string) (call string, step int, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i <= 0 {
		return "", 0, false
	}
	step, err := strconv.Atoi(id[i+1:])
	if err != nil || step < 1 || strings.Count(id, ".") != 3 {
		return "", 0, false
	}
	return id[:i], step, true
}
