package main

import (
	"context"
	"fmt"
	"testing"
)

// TestACommandThatIsBrokenOffSaysSo: whoever runs it by a timer takes the exit status for the truth. What lasts until it is
// told to end has done then what it was for.
func TestACommandThatIsBrokenOffSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for command, complete := range map[string]bool{
		"backup <dir>": false, "restore <dir>": false, "log migrate": false, "events export": false,
		"serve": true, "dev": true, "chat <message>": true, "events tail": true,
	} {
		err := ended(ctx, command, fmt.Errorf("copying: %w", context.Canceled))
		if (err == nil) != complete {
			t.Errorf("%s, told to end, answered %v", command, err)
		}
	}
}
