package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// oneLine reports whether a command failed as it should: exit code 1, one line that says why, nothing on stdout.
func oneLine(t *testing.T, out, errs string, code int, words ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	said := lines[len(lines)-1]
	if code != 1 || out != "" || !strings.HasPrefix(said, "cairn: ") || strings.Contains(said, "panic") {
		t.Errorf("ended with %d, printed %q and %q", code, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not say %q", said, w)
		}
	}
}

func (f *faults) wrongFlags(t *testing.T) {
	for _, c := range []struct {
		args  string
		words string
	}{
		{"events tail --scope nonsense", "no scope"},
		{"events tail --stream nonsense", "no stream"},
		{"events tail --last=-1", "0 or more"},
		{"events tail --last many", "--last"},
		{"events tail --nonsense", "--help"},
		{"events tail --data /nowhere", "nothing is running here"},
		{"events", "tail"},
		{"nonsense", "--help"},
		{"account tier nobody@example.com pro", "no account has this e-mail"},
		{"account tier nobody@example.com gold", "free"},
		{"keys lost nonsense --yes", "no scope"},
		{"keys lost user-x", "--yes"},
		{"serve", "CAIRN_BROKERS"},
		{"serve --brokers 127.0.0.1:1 --database-url postgres://127.0.0.1:1/a --vault-url postgres://127.0.0.1:1/b --role nothing", "there is no role"},
		{"migrate --brokers 127.0.0.1:1 --database-url postgres://127.0.0.1:1/a --vault-url postgres://127.0.0.1:1/b", "start Postgres"},
		{"events tail --sealed --brokers 127.0.0.1:1 --database-url postgres://127.0.0.1:1/a --vault-url postgres://127.0.0.1:1/b", "correct the address"},
		{"chat --url http://127.0.0.1:1 --email a@example.com --password 123456789012 --db " + filepath.Join(t.TempDir(), "device.db") + " hi", "correct the address"},
	} {
		out, errs, code := f.ended(strings.Fields(c.args)...)
		oneLine(t, out, errs, code, c.words)
	}
}

func (f *faults) printsJSON(t *testing.T) {
	for _, command := range []string{
		"events tail", "events tail --sealed", "events tail --scope " + f.u.scope + " --type thread.", "projections list", "effects list", "effects pause", "effects resume",
		"account tier twice@example.com pro", "doctor", "config", "migrate", "version",
	} {
		out, errs, code := f.ended(append(strings.Fields(command), "--json")...)
		if code != 0 || errs != "" || out == "" && command != "effects list" {
			t.Errorf("%s ended with %d and said %q", command, code, errs)
		}
		for line := range strings.Lines(out) {
			var object map[string]any
			if err := json.Unmarshal([]byte(line), &object); err != nil {
				t.Errorf("%s printed %q: %v", command, line, err)
			}
		}
	}
}

func (f *faults) secondProcess(t *testing.T) {
	out, errs, code := f.ended("dev")
	oneLine(t, out, errs, code, "another process uses this data directory", "CAIRN_DATA")
	f.say(t, "the first process is unharmed")
}
