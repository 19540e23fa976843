//go:build prometheus

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/clients/device"
)

// watcher is a Prometheus that watches a process.
type watcher struct {
	t     *testing.T
	url   string
	began time.Time
}

// watch starts a Prometheus with the configuration and the rules that are shipped, only quicker. It ends with the test.
func watch(ctx context.Context, t *testing.T, target string) *watcher {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(deploy, "prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(shipped)
	for _, change := range [][2]string{
		{"scrape_interval: 15s", "scrape_interval: 1s"}, {"evaluation_interval: 15s", "evaluation_interval: 1s"},
		{"127.0.0.1:8701", strings.TrimPrefix(target, "http://")}, {"rule_files: [alerts.yml]", "rule_files: [" + filepath.Join(dir, "alerts.yml") + "]"},
	} {
		if strings.Count(config, change[0]) != 1 {
			t.Fatalf("the shipped configuration has %q not once", change[0])
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	scratch := t.TempDir()
	file := filepath.Join(scratch, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(scratch, "data"), "--web.listen-address="+addr)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Prometheus (deploy/setup.sh prometheus installs it): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // by the signal
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said.String())
		}
	})
	w := &watcher{t: t, url: "http://" + addr, began: time.Now()}
	poll(ctx, t, "Prometheus is ready", func() bool {
		resp, err := http.Get(w.url + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return w
}

// ask asks Prometheus, and decodes what it answers as data.
func (w *watcher) ask(ctx context.Context, path string, values url.Values, data any) {
	w.t.Helper()
	status, body := at(ctx, w.t, w.url+path+"?"+values.Encode())
	answer := struct{ Data any }{data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		w.t.Fatalf("%s of %v answered %d: %s", path, values, status, body)
	}
}

// has reports whether a panel's query has data since the watcher began: one sample at least that is a number.
func (w *watcher) has(ctx context.Context, expr string) bool {
	w.t.Helper()
	asked := strings.NewReplacer("$__rate_interval", "10s", "$__range", "5m", "$job", ".*").Replace(expr)
	if strings.Contains(asked, "$") {
		w.t.Fatalf("%q has a variable that nobody fills", expr)
	}
	now := time.Now()
	var found struct {
		Result []struct{ Values [][2]any }
	}
	w.ask(ctx, "/api/v1/query_range", url.Values{
		"query": {asked}, "start": {fmt.Sprint(w.began.Unix())}, "end": {fmt.Sprint(now.Unix())}, "step": {"1"},
	}, &found)
	for _, series := range found.Result {
		for _, sample := range series.Values {
			text, _ := sample[1].(string)
			if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
				return true
			}
		}
	}
	return false
}

// firing are the alerts that fire now, by name and with their labels.
func (w *watcher) firing(ctx context.Context) map[string]map[string]string {
	w.t.Helper()
	var told struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	w.ask(ctx, "/api/v1/alerts", nil, &told)
	found := map[string]map[string]string{}
	for _, a := range told.Alerts {
		if a.State == "firing" {
			found[a.Labels["alertname"]] = a.Labels
		}
	}
	return found
}

// evaluated makes sure that Prometheus took every rule, and could evaluate it.
func (w *watcher) evaluated(ctx context.Context) {
	w.t.Helper()
	var told struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	rules := len(alerts(w.t))
	poll(ctx, w.t, "every rule was evaluated", func() bool {
		w.ask(ctx, "/api/v1/rules", nil, &told)
		well := 0
		for _, g := range told.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					w.t.Fatalf("the rule %s can't be evaluated: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					well++
				}
			}
		}
		return well == rules
	})
}

// use is a small load of everything that a user does, until ctx ends.
func (u *user) use(ctx context.Context) error {
	d := u.device(nil)
	for n := 0; ctx.Err() == nil; n++ {
		made, err := d.Send(device.Request{Message: fmt.Sprintf("Create a task called Number %d", n)}).Wait(ctx)
		if err != nil || made.Err != nil {
			return fmt.Errorf("a request: %w, %v", err, made.Err)
		}
		for _, path := range []string{"/api/v1/threads?min_position=" + made.Position, "/api/v1/runs/" + made.RunID, "/api/v1/me"} {
			if err := u.Get(ctx, path, nil); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if _, err := u.Do(ctx, http.MethodPost, "/api/v1/runs/"+made.RunID+"/cancel", nil, nil); err == nil { // it has ended: no
			return fmt.Errorf("a run that had ended was cancelled")
		}
	}
	return nil
}

// TestPrometheusWatchesARunningCairn lets a Prometheus scrape a process under a small load: the query of every panel of every
// dashboard returns data, every alert can be evaluated and none fires. Then a read model stops at an event. Its alert fires,
// readiness says so, and everything else goes on. It is mended, goes on, and the alert ends.
func TestPrometheusWatchesARunningCairn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	p := newProcess(t, "CAIRN_ADMIN_LISTEN=127.0.0.1:0", "CAIRN_COMMAND_RATE=1000", "CAIRN_COMMAND_BURST=1000", "CAIRN_LOG_LEVEL=warn")
	p.start(ctx)
	w := watch(ctx, t, p.runtime().AdminURL)
	u := newUser(ctx, t, p)

	using, rest := context.WithCancel(ctx)
	var load errgroup.Group
	load.Go(func() error { return u.use(using) })
	if out, err := p.run(ctx, "projections", "rebuild", "runs", "--no-swap"); err != nil {
		t.Fatalf("rebuild: %v\n%s", err, out)
	}
	asked := dashboards(t)
	patience, give := context.WithTimeout(ctx, 90*time.Second)
	defer give()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for left := asked; len(left) > 0; {
		var without []question
		for _, q := range left {
			if !w.has(ctx, q.expr) {
				without = append(without, q)
			}
		}
		left = without
		select {
		case <-tick.C:
		case <-patience.Done():
			for _, q := range left {
				t.Errorf("%s has no data: %s", q.where, q.expr)
			}
			left = nil
		}
	}
	t.Logf("%d queries of panels have data", len(asked))
	w.evaluated(ctx)
	if fires := w.firing(ctx); len(fires) > 0 {
		t.Errorf("alerts fire although all is well: %v", fires)
	}
	rest()
	if err := load.Wait(); err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("the load: %v", err)
	}
	w.stops(ctx, p, u)
}

// stops has the read model of threads meet an event that it can't apply.
func (w *watcher) stops(ctx context.Context, p *process, u *user) {
	t := w.t
	t.Helper()
	db, err := pgx.Connect(ctx, p.runtime().DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	var table string
	if err := db.QueryRow(ctx, `SELECT 'threads_' || generation FROM projections WHERE name = 'threads'`).Scan(&table); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `ALTER TABLE `+table+` ADD CONSTRAINT broken CHECK (false) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Do(ctx, http.MethodPost, "/api/v1/threads", map[string]string{"title": "the last straw"}, nil); err != nil {
		t.Errorf("a write is refused because a read model stops: %v", err)
	}
	began := time.Now()
	poll(ctx, t, "the alert for a stopped projector fires", func() bool { return w.firing(ctx)["CairnProjectionStopped"] != nil })
	fires := w.firing(ctx)
	t.Logf("after %.1f s these fire: %v", time.Since(began).Seconds(), fires)
	if got := fires["CairnProjectionStopped"]; got["projection"] != "threads" || got["partition"] != "0" || got["severity"] != "critical" {
		t.Errorf("it fires for %v", got)
	}
	status, said := at(ctx, t, p.url()+"/readyz?verbose")
	if status != http.StatusServiceUnavailable || !strings.Contains(said, "projection threads/0") || !strings.Contains(said, "broken") {
		t.Errorf("/readyz answered %d: %s", status, said)
	}
	poll(ctx, t, "the stop is in what is scraped", func() bool { return w.has(ctx, `cairn_projection_stopped{projection="threads"} == 1`) })
	if w.has(ctx, `cairn_projection_stopped{projection!="threads"} == 1`) {
		t.Error("another read model stopped, too")
	}
	if _, err := u.Do(ctx, http.MethodPost, "/api/v1/threads", map[string]string{"title": "goes on"}, nil); err != nil {
		t.Errorf("a write is refused because a read model has stopped: %v", err)
	}

	if _, err := db.Exec(ctx, `ALTER TABLE `+table+` DROP CONSTRAINT broken`); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(ctx, "projections", "resume", "threads"); err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	poll(ctx, t, "the alert ends", func() bool { return w.firing(ctx)["CairnProjectionStopped"] == nil })
	p.ready(ctx)
}

// TestPrometheusTakesTheRules has promtool try each alert, and check the configuration.
func TestPrometheusTakesTheRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"},
	} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = filepath.Join(deploy, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
