package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// deploy is the folder of dashboards and alerts, from this package.
const deploy = "../../../deploy"

// question is an expression that a dashboard or an alert asks Prometheus.
type question struct{ where, expr string }

// dashboards are the questions of all panels.
func dashboards(t *testing.T) (asked []question) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title, Type string
				Targets     []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range dashboard.Panels {
			if len(p.Targets) == 0 && p.Type != "row" {
				t.Errorf("%s: %q asks nothing", file, p.Title)
			}
			for _, target := range p.Targets {
				asked = append(asked, question{filepath.Base(file) + ": " + p.Title, target.Expr})
			}
		}
	}
	return asked
}

// alert is a rule as it stands in the file.
type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%d groups of alerts, %v", len(file.Groups), err)
	}
	return file.Groups[0].Rules
}

// at asks an address and answers the status and what it said.
func at(ctx context.Context, t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestDashboardsAndAlertsAskForWhatIsMeasured runs a conversation and looks at what the process tells operators: everything
// that dashboards and alerts name is there, nothing of what people brought is a label, and nobody else is told.
func TestDashboardsAndAlertsAskForWhatIsMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := newProcess(t, "CAIRN_ADMIN_LISTEN=127.0.0.1:0")
	p.start(ctx)
	u := newUser(ctx, t, p)
	converse(ctx, t, u)
	admin := p.runtime().AdminURL
	status, text := at(ctx, t, admin+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answered %d: %s", status, text)
	}

	measured := map[string]bool{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			measured[name] = true
		}
	}
	asked := dashboards(t)
	for _, a := range alerts(t) {
		asked = append(asked, question{"alert " + a.Alert, a.Expr})
	}
	names, used := regexp.MustCompile(`\b(cairn|go|process)_[a-z0-9_]+`), map[string]bool{}
	for _, q := range asked {
		for _, name := range names.FindAllString(q.expr, -1) {
			used[name] = true
			base := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if cut, ok := strings.CutSuffix(name, suffix); ok && measured[cut] {
					base = cut
				}
			}
			if !measured[base] {
				t.Errorf("%s asks for %s, which the process does not measure", q.where, name)
			}
			used[base] = true
		}
	}
	for name := range measured {
		if strings.HasPrefix(name, "cairn_") && !used[name] {
			t.Errorf("%s is measured, and no dashboard shows it", name)
		}
	}

	var threads struct {
		Data []struct{ ID string }
	}
	if err := u.Get(ctx, "/api/v1/threads", &threads); err != nil || len(threads.Data) != 1 {
		t.Fatalf("%d threads, %v", len(threads.Data), err)
	}
	for _, word := range []string{u.scope, strings.TrimPrefix(u.scope, "user-"), threads.Data[0].ID, "Buy milk"} {
		if strings.Contains(text, word) {
			t.Errorf("what is measured names %q", word)
		}
	}

	for _, path := range []string{"/healthz", "/readyz", "/readyz?verbose", "/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/"} {
		if status, said := at(ctx, t, admin+path); status != http.StatusOK {
			t.Errorf("%s answered operators %d: %s", path, status, said)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		if status, _ := at(ctx, t, p.url()+path); status != http.StatusNotFound {
			t.Errorf("%s answered everybody %d", path, status)
		}
	}
	_, public := at(ctx, t, p.url()+"/readyz?verbose")
	_, private := at(ctx, t, admin+"/readyz?verbose")
	for _, check := range []string{"projection threads/0", "0 behind", "writer/0", "database", "vault", "brokers", "publisher/0"} {
		if !strings.Contains(public, check) || !strings.Contains(private, check) {
			t.Errorf("readiness does not tell %q:\n%s\n%s", check, public, private)
		}
	}
}

// TestEachAlertSaysWhatToDo: its rule leads to a sentence in the operators' documentation.
func TestEachAlertSaysWhatToDo(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	tried, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		anchor := strings.ToLower(a.Alert)
		if _, fragment, ok := strings.Cut(a.Annotations["runbook_url"], "docs/operations.md#"); !ok || fragment != anchor {
			t.Errorf("%s leads to %q", a.Alert, a.Annotations["runbook_url"])
		}
		if !strings.Contains(string(text), `<a id="`+anchor+`">`) {
			t.Errorf("docs/operations.md does not say what to do about %s", a.Alert)
		}
		if a.Annotations["summary"] == "" || a.Labels["severity"] != "critical" && a.Labels["severity"] != "warning" {
			t.Errorf("%s has no summary, or no severity: %v %v", a.Alert, a.Annotations, a.Labels)
		}
		if !strings.Contains(string(tried), "name: "+a.Alert+"\n") {
			t.Errorf("alerts_test.yml does not try %s", a.Alert)
		}
	}
}
