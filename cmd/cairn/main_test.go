package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestACommandThatIsBrokenOffSaysSo: whoever runs it by a timer takes the exit status for the truth.
func TestACommandThatIsBrokenOffSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"backup", filepath.Join(t.TempDir(), "copy")}, {"repair"}, {"log", "migrate", "--to-partitions", "2", "--yes"}} {
		var out, says bytes.Buffer
		data := t.TempDir()
		err := run(ctx, append([]string{"--data", data}, args...), console{in: strings.NewReader(""), out: &out, err: &says})
		if err == nil {
			t.Errorf("%v was broken off and says nothing: %s%s", args, out.String(), says.String())
		}
	}
}
