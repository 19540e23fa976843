package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cairnhq/cairn/projections/pgtest"
)

// binary is the program under test, built once for the package.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cairn-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "cairn")
		err = build()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	pgtest.Main(m, func() error { return os.RemoveAll(dir) })
}

func build() error {
	out, err := exec.Command("go", "build", "-o", binary, "github.com/cairnhq/cairn/cmd/cairn").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build cairn: %w\n%s", err, out)
	}
	return nil
}

// process is a `cairn dev` on a data directory and a port that stay the same over restarts.
type process struct {
	t    *testing.T
	data string
	addr string
	env  []string
	// program is what runs; empty: the one under test.
	program string

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when cmd has ended
	output *bytes.Buffer // of every start
}

func newProcess(t *testing.T, env ...string) *process {
	t.Helper()
	// Postgres wants a short path for its socket, and t.TempDir has the test's name in it.
	data, err := os.MkdirTemp("", "cairn-")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, data: data, addr: freeAddr(t), env: env, output: &bytes.Buffer{}}
	t.Cleanup(func() {
		p.kill()
		removePostgres(p.data)
		if t.Failed() {
			t.Logf("output of cairn:\n%s", p.said())
		}
		os.RemoveAll(data)
	})
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *process) url() string { return "http://" + p.addr }

// start begins the process and returns when it is ready.
func (p *process) start(ctx context.Context) {
	p.t.Helper()
	p.launch()
	p.ready(ctx)
}

func (p *process) launch() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(cmp.Or(p.program, binary), "dev", "--data", p.data, "--listen", p.addr)
	cmd.Env = append(append(os.Environ(), "CAIRN_ADMIN_LISTEN="), p.env...) // none, unless the test wants one
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &locked{mu: &p.mu, to: p.output}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // killed, most of the time
		close(done)
	}()
}

func (p *process) ready(ctx context.Context) {
	p.t.Helper()
	poll(ctx, p.t, "cairn is ready", func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("cairn ended while it started:\n%s", p.said())
		default:
		}
		resp, err := http.Get(p.url() + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// kill ends the process at once, as a power cut would end it: nothing is told, nothing is flushed.
func (p *process) kill() {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	<-done
}

// end asks the process to end and answers its exit code.
func (p *process) end() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// postgresHome is where the cluster of a data directory lies: elsewhere, if its user can't reach the directory.
func postgresHome(data string) string {
	if text, err := os.ReadFile(filepath.Join(data, "postgres", "location")); err == nil {
		return strings.TrimSpace(string(text))
	}
	return filepath.Join(data, "postgres", "server")
}

// killPostgres ends the cluster of a data directory at once.
func killPostgres(data string) {
	text, err := os.ReadFile(filepath.Join(postgresHome(data), "data", "postmaster.pid"))
	if err != nil {
		return
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// removePostgres ends the cluster and removes what lies outside the data directory.
func removePostgres(data string) {
	killPostgres(data)
	if home := postgresHome(data); !strings.HasPrefix(home, data) {
		os.RemoveAll(home)
	}
}

// brokers are those that the running process says it has.
func (p *process) brokers() []string { return p.runtime().Brokers }

// runtime is what a running process says of itself.
type runtime struct {
	Brokers     []string `json:"brokers"`
	AdminURL    string   `json:"admin_url"`
	DatabaseURL string   `json:"database_url"`
}

func (p *process) runtime() (running runtime) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.data, "runtime.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &running); err != nil {
		p.t.Fatal(err)
	}
	return running
}

// run runs a command of the program on the process's data.
func (p *process) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, cmp.Or(p.program, binary), append(args, "--data", p.data, "--listen", p.addr)...)
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// poll asks until ok, or ctx ends.
func poll(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited too long until %s", what)
		case <-tick.C:
		}
	}
}
