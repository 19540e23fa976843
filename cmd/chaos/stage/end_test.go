package stage_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/cmd/chaos/stage"
)

// A process that ends by itself, or otherwise than it was told to, is a fault, unless there is a reason for it.
func TestAnEndThatNobodyPlannedIsFound(t *testing.T) {
	const away = "echo 'cairn: connect: failed to connect to `user=cairn`: refused' >&2; exit 1"
	type ending struct {
		script string
		stops  bool
		says   string // what the fault says; "": there is none
		pardon bool
	}
	endings := map[string]ending{
		"killed":                      {script: "exec sleep 60"},
		"stopped in good order":       {script: "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done", stops: true},
		"stopped with an error":       {script: "trap 'echo cairn: a part failed; exit 1' TERM; echo up; while :; do sleep 0.02; done", stops: true, says: "a part failed"},
		"an error":                    {script: "echo 'cairn: no migration'; echo more; exit 1", says: "exit status 1: cairn: no migration"},
		"a panic":                     {script: "echo 'panic: oh'; echo 'goroutine 1'; exit 2", says: "exit status 2: panic: oh"},
		"a good end":                  {script: "exit 0", says: "exit status 0"},
		"a signal":                    {script: "kill -9 $$", says: "signal: killed"},
		"Postgres away at the start":  {script: away, pardon: true},
		"Postgres away while it runs": {script: "echo 'cairn: serving on http://x' >&2; " + away, says: "failed to connect"},
		"that with another code":      {script: strings.Replace(away, "exit 1", "exit 3", 1), says: "exit status 3"},
	}
	// All are written before the first is started: a process that is forked meanwhile would hold a file open for
	// writing, and the system starts no such program.
	dirs := map[string]string{}
	for name, c := range endings {
		dirs[name] = t.TempDir()
		if err := os.WriteFile(filepath.Join(dirs[name], "program"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	for name, c := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dirs[name]
			binary := filepath.Join(dir, "program")
			p, err := stage.NewProcess(stage.Program{Dir: dir, Binary: binary}, "writer", 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.stops:
				until(t, func() bool { text, _ := os.ReadFile(filepath.Join(dir, "writer-1.log")); return len(text) > 0 })
				p.Stop()
			case c.says != "" || c.pardon:
				until(t, func() bool { return len(p.Ended()) > 1 }) // it is started again
			}
			p.Kill()
			faults, notes := stage.Unplanned(p.Ended())
			if len(faults) != len(nonempty(c.says)) || c.says != "" && !strings.Contains(faults[0], c.says) {
				t.Errorf("faults %q, wanted %q", faults, c.says)
			}
			if (len(notes) > 0) != c.pardon {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

func nonempty(text string) []string { return strings.Fields(strings.ReplaceAll(text, " ", "_")) }

// until waits for something, but not for ever.
func until(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatal("it never came")
		case <-tick.C:
		}
	}
}
