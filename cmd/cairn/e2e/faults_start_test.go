package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

// toldToEnd asks the process to end while one client waits at a socket and one at a stream over HTTP. Both are told,
// and the run goes on at the next start (see fullDisk).
func (f *faults) toldToEnd(t *testing.T) {
	f.slow = f.d.Send(device.Request{Message: "answer slowly", SessionID: f.in, RequestID: "id of answer slowly"})
	select {
	case <-f.held:
	case <-f.ctx.Done():
		t.Fatal("the model was not asked")
	}
	token, err := f.u.Token(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.ctx, http.MethodPost, f.p.url()+"/api/v1/chat", strings.NewReader(`{"message":"answer slowly, over HTTP"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Idempotency-Key": {"slow over HTTP"},
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), "stream_start") {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	began := time.Now()
	if code := f.p.end(); code != 0 {
		t.Errorf("cairn ended with %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "stream_end") {
			t.Errorf("the stream says that the run ended: %s", lines.Text())
		}
	}
}

// refused starts the process, which must not start, and looks at what the doctor says.
func (f *faults) refused(t *testing.T, env []string, says, check string) {
	t.Helper()
	out, errs, code := f.endedWith(env, "dev")
	oneLine(t, out, errs, code, says)
	if check == "" {
		return
	}
	out, errs, code = f.endedWith(env, "doctor", "--json")
	if code != 1 || !strings.Contains(errs, "problem") {
		t.Errorf("the doctor ended with %d and %q", code, errs)
	}
	for line := range strings.Lines(out) {
		var finding struct{ Check, Status, Mend string }
		if err := json.Unmarshal([]byte(line), &finding); err != nil {
			t.Fatal(err)
		}
		if (finding.Status == "problem") != (finding.Check == check) || finding.Status == "problem" && finding.Mend == "" {
			t.Errorf("the doctor finds %s", line)
		}
	}
}

func (f *faults) newerData(t *testing.T) {
	path := filepath.Join(f.p.data, "kafka", "format.json")
	defer swapped(t, path, []byte(`{"format":99}`))()
	f.refused(t, nil, "a newer release wrote this data directory", "data directory")
}

// swapped replaces a file until the answer is called.
func swapped(t *testing.T, path string, with []byte) (back func()) {
	t.Helper()
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, with, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *faults) portTaken(t *testing.T) {
	l, err := net.Listen("tcp", f.p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.refused(t, nil, "CAIRN_LISTEN", "address")
}

func (f *faults) notWritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // whom no mode stops
		dir = filepath.Join(dir, "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.refused(t, []string{"CAIRN_DATA=" + dir}, "CAIRN_DATA", "data directory")
}

func (f *faults) keyMissing(t *testing.T) {
	path := filepath.Join(f.p.data, "master.key")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	f.refused(t, nil, "bring the file back from its backup", "master key")
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
}

func (f *faults) keyWrong(t *testing.T) {
	path := filepath.Join(f.p.data, "master.key")
	defer swapped(t, path, append(bytes.Repeat([]byte("0f"), 32), '\n'))()
	f.refused(t, nil, "wrong master key", "") // only a running vault can tell the doctor
}

func (f *faults) vaultLost(t *testing.T) {
	path := filepath.Join(f.p.data, "postgres")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	f.refused(t, nil, "the vault is new, but the log is not", "")
	removePostgres(f.p.data)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
}
