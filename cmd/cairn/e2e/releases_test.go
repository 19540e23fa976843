package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../../.."

// previousRelease builds the program of the previous commit, or of this one where the history ends here, or where the
// previous one is from before format levels, and so promises nothing of them.
func previousRelease(t *testing.T) string {
	t.Helper()
	commit := "HEAD~1"
	if exec.Command("git", "-C", repository, "cat-file", "-e", commit+":cmd/cairn/upgrade.go").Run() != nil {
		commit = "HEAD"
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "previous.tar")
	execute(t, "", "git", "-C", repository, "archive", "--output", archive, commit)
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	execute(t, "", "tar", "-xf", archive, "-C", source)
	out := filepath.Join(dir, "cairn")
	execute(t, source, "go", "build", "-o", out, "./cmd/cairn")
	return out
}

// pennant is an aggregate of a release to come.
const pennant = `// Package pennant is what the next release has more.
package pennant

import "github.com/cairnhq/cairn/domain"

type Command interface {
	domain.Command
	pennant()
}

type Event interface{ pennant() }

type Raise struct {
	Pennant string ` + "`json:\"pennant\"`" + `
}

func (r Raise) Target() domain.Stream { return domain.NewStream("pennant", r.Pennant) }
func (Raise) pennant()                {}

type Raised struct{}

func (Raised) pennant() {}

type State struct{ Up bool }

func (State) Decide(Command) ([]Event, error) { return []Event{Raised{}}, nil }
func (State) Evolve(Event) State              { return State{Up: true} }

func All() domain.Aggregate {
	return domain.Single[State, Command, Event]("pennant", 1,
		[]domain.Kind{domain.Named[Raise]("pennant.raise", domain.Since(1000))},
		[]domain.Kind{domain.Named[Raised]("pennant.raised", domain.Since(1000))})
}
`

// newRelease builds this program with one more command and one more event, which may not be written yet.
func newRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(root, "domain", "aggregates", "aggregates.go")
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	const begins, imports = "return []domain.Aggregate{\n", "import (\n"
	if strings.Count(string(text), begins) != 1 || strings.Count(string(text), imports) != 1 {
		t.Fatal("the list of aggregates does not look as this test knows it")
	}
	changed := strings.Replace(string(text), begins, begins+"\t\tpennant.All(),\n", 1)
	changed = strings.Replace(changed, imports, imports+"\t\"github.com/cairnhq/cairn/domain/pennant\"\n", 1)
	overlay := map[string]map[string]string{"Replace": {
		list: filepath.Join(dir, "aggregates.go"),
		filepath.Join(root, "domain", "pennant", "pennant.go"): filepath.Join(dir, "pennant.go"),
	}}
	description, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"aggregates.go": changed, "pennant.go": pennant, "overlay.json": string(description)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "cairn")
	execute(t, root, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, "./cmd/cairn")
	return out
}

func execute(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
