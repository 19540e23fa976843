package stage

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// End is an end of a process that nobody planned.
type End struct {
	Process string
	Sort    EndSort
	Code    int // -1: by a signal
	State   string
	Served  bool   // it had said that it serves
	Said    string // its last line
}

// EndSort says what was not planned about an end.
type EndSort string

// The sorts.
const (
	ByItself EndSort = "ended by itself"
	Untidy   EndSort = "was told to stop, and did not end in good order"
)

// String is the end in one line.
func (e End) String() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Process, e.Sort, e.State, e.Said)
}

// pardons are the ends that need not have been planned, with the reason for each.
func pardons() []pardon {
	return []pardon{{
		code: 1, says: "failed to connect to `",
		why: "it was started while Postgres was away, said so and ended, and is started again until Postgres is there",
	}}
}

// pardon pardons an end before the process served, by its exit code and its last words: the program has one code for
// every failure.
type pardon struct {
	code int
	says string
	why  string
}

// Pardoned is the reason why an end is as it should be. Empty: it is a fault.
func (e End) Pardoned() string {
	for _, p := range pardons() {
		if e.Sort == ByItself && !e.Served && e.Code == p.code && strings.Contains(e.Said, p.says) {
			return p.why
		}
	}
	return ""
}

// Unplanned tells ends that are faults from those that have a reason, which are notes; of equal ones it says how many.
func Unplanned(ends []End) (faults, notes []string) {
	times := map[End]int{}
	for _, e := range ends {
		times[e]++
	}
	for _, e := range ends {
		n := times[e]
		if n == 0 {
			continue // told
		}
		delete(times, e)
		text := e.String()
		if n > 1 {
			text = fmt.Sprintf("%s (%d times)", text, n)
		}
		if why := e.Pardoned(); why != "" {
			notes = append(notes, text+" ("+why+")")
		} else {
			faults = append(faults, text)
		}
	}
	return faults, notes
}

// how is the end of the last start, with mu held.
func (p *Process) how(sort EndSort, cmd *exec.Cmd) End {
	e := End{Process: p.String(), Sort: sort, Code: cmd.ProcessState.ExitCode(), State: cmd.ProcessState.String()}
	text, err := p.said()
	if err != nil {
		e.Said = "(its log can't be read: " + err.Error() + ")"
		return e
	}
	e.Served = strings.Contains(text, ": serving on ")
	e.Said = lastWords(text)
	return e
}

// lastWords are the last line in which a program says why it ends, else its last line.
func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		for _, begins := range []string{"cairn: ", "chaos: ", "panic: ", "fatal error: "} {
			if strings.HasPrefix(lines[i], begins) && !strings.Contains(lines[i], ": serving on ") {
				return lines[i]
			}
		}
	}
	return lines[len(lines)-1]
}

// said is what the last start has written.
func (p *Process) said() (string, error) {
	file, err := os.Open(p.log)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := file.Seek(p.began, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}
