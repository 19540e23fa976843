package main

import (
	"context"
	"fmt"
	"strings"
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

// TestPruningNeedsATime: none is not the year 1.
func TestPruningNeedsATime(t *testing.T) {
	for _, before := range []string{"", " ", "soon", "0001-01-01", "2999-01-01"} {
		if err := (pruneCmd{Before: before}).Run(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "time") && !strings.Contains(err.Error(), "--before") {
			t.Errorf("--before %q: %v", before, err)
		}
	}
}
