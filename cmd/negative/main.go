// Program negative shows that Cairn's tests would notice if one of its safety mechanisms were missing. It builds the tests with
// the tag "negative", runs them once with every mechanism on, which must be green, and then each control in a process of its
// own with its mechanism turned off, which must be red. It is for `make negative`; nothing of it is shipped.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/safety"
)

func main() {
	sample := flag.Bool("sample", false, "only the controls that share one test binary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *sample); err != nil {
		fmt.Fprintln(os.Stderr, "negative:", err)
		os.Exit(1)
	}
}

// tests is the binary of a folder's tests.
type tests struct{ binary, folder string }

func run(ctx context.Context, sample bool) (err error) {
	dir, err := os.MkdirTemp("", "cairn-negative-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := controls()
	if !sample {
		all = append(all, laws()...)
	}
	var failed []error
	for len(all) > 0 { // folder by folder
		folder := all[0].folder
		mine := slices.DeleteFunc(slices.Clone(all), func(c control) bool { return c.folder != folder })
		all = slices.DeleteFunc(all, func(c control) bool { return c.folder == folder })
		t := tests{filepath.Join(dir, strings.ReplaceAll(folder, "/", "-")+".test"), folder}
		if err := t.build(ctx); err != nil {
			return err
		}
		if err := t.green(ctx, mine); err != nil {
			failed = append(failed, err)
			continue
		}
		for _, c := range mine {
			if err := t.red(ctx, c); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

func (t tests) build(ctx context.Context) error {
	fmt.Printf("building the tests of %s with the tag\n", t.folder)
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "negative", "-o", t.binary, "./"+t.folder)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the tests of %s: %w", t.folder, err)
	}
	program, err := os.ReadFile(t.binary)
	if err == nil && !bytes.Contains(program, []byte("CAIRN_OFF")) {
		err = errors.New("it has no switch")
	}
	if err != nil {
		return fmt.Errorf("the tests of %s, built with the tag: %w", t.folder, err)
	}
	return nil
}

// green runs the tests of the controls with everything on: red then would prove nothing.
func (t tests) green(ctx context.Context, mine []control) error {
	names := map[string]bool{}
	for _, c := range mine {
		names[c.test] = true
	}
	pattern := make([]string, 0, len(names))
	for name := range names {
		pattern = append(pattern, name)
	}
	out, err := t.start(ctx, "", strings.Join(pattern, "|"))
	if err != nil {
		return fmt.Errorf("%s: with everything on it is red already: %w\n%s", t.folder, err, out)
	}
	for name := range names {
		if !regexp.MustCompile(`(?m)^--- PASS: ` + name + ` `).Match(out) {
			return fmt.Errorf("%s has no test %s", t.folder, name)
		}
	}
	fmt.Printf("everything on -> green (%d tests of %s)\n", len(names), t.folder)
	return nil
}

// red runs one test with a mechanism off. Only a failure of that test counts: no panic, and not the time limit.
func (t tests) red(ctx context.Context, c control) error {
	began := time.Now()
	out, err := t.start(ctx, c.off, c.test)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !regexp.MustCompile(`(?m)^--- FAIL: `+c.test+` `).Match(out) || bytes.Contains(out, []byte("\npanic: ")) {
		return fmt.Errorf("%s off -> NOT red (%s of %s, %v):\n%s", c.off, c.test, c.folder, err, tail(out))
	}
	fmt.Printf("%s off -> red (%s of %s, %.1f s)\n", c.off, c.test, c.folder, time.Since(began).Seconds())
	return nil
}

func (t tests) start(ctx context.Context, off safety.Mechanism, pattern string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, t.binary, "-test.v", "-test.timeout", "4m", "-test.run", "^("+pattern+")$")
	test.Dir = t.folder
	test.Env = append(os.Environ(), "CAIRN_OFF="+string(off))
	return test.CombinedOutput()
}

// tail is the end of an output, for a report.
func tail(out []byte) []byte {
	const most = 4000
	return out[max(0, len(out)-most):]
}
