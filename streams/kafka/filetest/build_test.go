package filetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built is the stage on a copy of the broker whose calls of the operating system are those of testdata/files.go.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	module := output(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go/pkg/kfake")
	broker := filepath.Join(dir, "kfake")
	copySources(t, module, broker)
	files, err := os.ReadFile("testdata/files.go")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(broker, "zz_files.go"), string(files))
	seam := filepath.Join(broker, "persist_fs.go")
	text, err := os.ReadFile(seam)
	if err != nil {
		t.Fatal(err)
	}
	redirected := strings.ReplaceAll(strings.Replace(string(text), "type osFS struct{}", "type realFS struct{}", 1), "func (osFS) ", "func (realFS) ")
	if redirected == string(text) {
		t.Fatal("the broker has no osFS any more: see how it calls the operating system now")
	}
	write(t, seam, redirected)
	mod := output(t, "go", "env", "GOMOD")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(mod), name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace github.com/twmb/franz-go/pkg/kfake => %s\n", broker)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	stage := filepath.Join(dir, "stage")
	output(t, "go", "build", "-modfile", filepath.Join(dir, "go.mod"), "-o", stage, "./stage")
	return stage
}

func copySources(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "go.") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), string(text))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, cmd.Stderr)
	}
	return strings.TrimSpace(string(out))
}
