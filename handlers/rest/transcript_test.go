package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/handlers/rest"
)

// What the page says a server answers is what it answers: its commands are run, one after the other, by one
// shell, and their output is held against the page. "…" stands for anything; a line of its own for any lines;
// an indented line goes on with the one before.
func TestTheTranscriptsOfThePageAreTrue(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.StreamingPing = time.Second }) // by which curl hears that its reader is gone
	page, err := os.ReadFile("../../docs/rest.md")
	check(t, err)
	sh := newShell(t)
	var still pgx.Tx
	ran := 0
	for _, block := range blocks(string(page)) {
		switch block.stage {
		case "the read models stand still": // one transaction feeds all of them
			still, err = r.pool.Begin(t.Context())
			check(t, err)
			defer still.Rollback(t.Context())
			_, err = still.Exec(t.Context(), `SELECT FROM projection_checkpoints WHERE projection = 'threads' FOR UPDATE`)
			check(t, err)
		case "it goes on":
			check(t, still.Rollback(t.Context()))
		case "":
		default:
			t.Fatalf("nobody knows how to make it that %q", block.stage)
		}
		for _, one := range block.commands {
			got := sh.run(strings.ReplaceAll(one.line, "http://localhost:8700", r.server.URL))
			got = strings.ReplaceAll(got, r.server.URL, "http://localhost:8700")
			if !one.pattern().MatchString(got) {
				t.Fatalf("$ %s\nsays\n%s\nand the page says\n%s", one.line, got, one.output)
			}
			ran++
		}
	}
	if ran < 15 {
		t.Errorf("the page has only %d commands", ran)
	}
}

// block is a console block of the page, and what must be so before it.
type block struct {
	stage    string
	commands []command
}

type command struct{ line, output string }

// blocks are a page's console blocks. A comment before one, <!-- when: … -->, says what must be so.
func blocks(page string) []block {
	find := regexp.MustCompile("(?ms)(?:^<!-- when: ([^\n]*?) -->\n+)?^```console\n(.*?)^```$")
	var all []block
	for _, found := range find.FindAllStringSubmatch(page, -1) {
		b := block{stage: found[1]}
		for line := range strings.Lines(found[2]) {
			text, is := strings.CutPrefix(line, "$ ")
			switch last := len(b.commands) - 1; {
			case is:
				b.commands = append(b.commands, command{line: strings.TrimSuffix(text, "\n")})
			case strings.HasPrefix(line, "    ") && b.commands[last].output == "": // the command goes on
				b.commands[last].line += "\n" + strings.TrimSuffix(line, "\n")
			default:
				b.commands[last].output += line
			}
		}
		all = append(all, b)
	}
	return all
}

// pattern is what a command's output must be.
func (c command) pattern() *regexp.Regexp {
	wanted := regexp.MustCompile(`\n[ \t]+`).ReplaceAllString(c.output, "")
	var pattern strings.Builder
	for line := range strings.Lines(wanted) {
		if line == "…\n" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*?"))
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`)
}

// shell is a bash that waits for commands.
type shell struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	end func()
}

func newShell(t *testing.T) *shell {
	t.Helper()
	bash := exec.Command("bash", "--norc", "--noprofile", "-s") // its input ends before the test does
	bash.Dir, bash.WaitDelay = t.TempDir(), 10*time.Second
	in, err := bash.StdinPipe()
	check(t, err)
	out, err := bash.StdoutPipe()
	check(t, err)
	bash.Stderr = bash.Stdout
	check(t, bash.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = bash.Wait() // its last command's status, which the page may let fail
	})
	return &shell{t: t, in: in, out: bufio.NewReader(out), end: func() { _ = bash.Process.Kill() }}
}

// mark ends a command's output.
const mark = "\x1e"

// run runs a command and answers what it says, without carriage returns and always with a last line break.
func (s *shell) run(line string) string {
	s.t.Helper()
	late := time.AfterFunc(30*time.Second, s.end) // an open quotation waits for ever
	defer late.Stop()
	_, err := fmt.Fprintf(s.in, "%s\nprintf '\\036\\n'\n", line)
	check(s.t, err)
	var said strings.Builder
	for {
		text, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("$ %s\nsays\n%s%s\nand ends with %v", line, said.String(), text, err)
		}
		before, ends := strings.CutSuffix(strings.TrimSuffix(text, "\n"), mark)
		if ends && before == "" {
			return said.String()
		}
		said.WriteString(strings.ReplaceAll(before, "\r", "") + "\n")
		if ends {
			return said.String()
		}
	}
}
