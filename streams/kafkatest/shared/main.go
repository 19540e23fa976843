// Command shared runs a test command with one Kafka cluster for all of its packages:
// `go run ./streams/kafkatest/shared -brokers 3 go test ./...`. It sets CAIRN_TEST_KAFKA to the brokers, and ends with
// the command's exit code. When it is ended, the command is interrupted and the brokers are gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cairnhq/cairn/streams/kafkatest"
)

func main() {
	brokers := flag.Int("brokers", 1, "1 or 3")
	jars := flag.String("jars", "", "folder with Kafka's jars (default: .kafka/jars of the checkout)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, *brokers, *jars, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, brokers int, jars string, args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("kafkatest: name the test command")
	}
	dir, err := os.MkdirTemp("", "cairn-kafka-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := kafkatest.Start(ctx, kafkatest.Config{Dir: dir, Brokers: brokers, Jars: jars, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()

	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // it runs what it was told to
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), kafkatest.Variable+"="+strings.Join(cluster.Seeds(), ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	} else if err != nil {
		return 1, err
	}
	return 0, nil
}
