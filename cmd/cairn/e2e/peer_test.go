//go:build peers

package e2e_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/device"
)

// TestPeerModel is the conversation of TestARequestBecomesARow against a model server that nobody here wrote,
// in its own process, scripted to call tools; and a note, whose text goes through the embedder to the device.
func TestPeerModel(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := os.Getenv("CAIRN_TEST_PEERS")
	if dir == "" {
		t.Fatal("CAIRN_TEST_PEERS must be the folder clients/peers with its packages installed: use make test-peers")
	}
	p := newProcess(t, "CAIRN_MODEL_URL="+startPeer(ctx, t, dir), "CAIRN_MODEL_KEY=peer", "CAIRN_MODEL=gpt-4.1-mini")
	p.start(ctx)
	u := newUser(ctx, t, p)
	converse(ctx, t, u)

	d := u.device(nil)
	noted, err := d.Send(device.Request{Message: "Write a note with the door code"}).Wait(ctx)
	if err != nil || noted.Err != nil {
		t.Fatalf("note: %v, %v", err, noted.Err)
	}
	rows, err := d.Store().Rows(ctx, "notes")
	if err != nil || len(rows) != 1 || rows[0]["title"] != "Door" {
		t.Fatalf("the device's notes are %v, %v", rows, err)
	}
	if len(noted.Mutations) == 0 || !strings.Contains(noted.Text, "Noted") {
		t.Errorf("the note's run answered %q and changed %v", noted.Text, noted.Mutations)
	}
}

// startPeer starts the model server and answers its base URL. It ends when its standard input does.
func startPeer(ctx context.Context, t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "model.mjs"))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // its end was asked for
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "http://") {
		t.Fatalf("the model server said %q", lines.Text())
	}
	url := lines.Text()
	go func() {
		for lines.Scan() { // its output must not block it
		}
	}()
	return url
}
