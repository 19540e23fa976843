// Command shared runs a test command with one Postgres cluster for all of its packages, so that each need not
// make its own: `go run ./projections/pgtest/shared go test ./...`. It ends with the command's exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("name the test command")
	}
	dir, err := os.MkdirTemp("", "cairn-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server's user must enter it
		return 1, err
	}
	cluster, err := postgres.Start(ctx, pgtest.Config(dir))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()

	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // it runs what it was told to
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), pgtest.Variable+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	} else if err != nil {
		return 1, err
	}
	return 0, nil
}
