package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Find answers how to reach the running cluster of a directory that another process has started.
func Find(dir string) (dsn func(database string) string, err error) {
	home := filepath.Join(dir, "server")
	if text, err := os.ReadFile(filepath.Join(dir, "location")); err == nil {
		home = strings.TrimSpace(string(text))
	}
	text, err := os.ReadFile(filepath.Join(home, "data", "postmaster.pid"))
	if err != nil {
		return nil, fmt.Errorf("postgres: no running cluster in %s: %w", dir, err)
	}
	// pid, data directory, start time, port, socket directory, … one a line
	lines := strings.Split(string(text), "\n")
	if len(lines) < 5 {
		return nil, fmt.Errorf("postgres: the cluster in %s is not up yet", dir)
	}
	port, err := strconv.Atoi(strings.TrimSpace(lines[3]))
	if err != nil {
		return nil, fmt.Errorf("postgres: the pid file in %s is not readable: %w", dir, err)
	}
	return func(database string) string { return SocketDSN(strings.TrimSpace(lines[4]), port, database) }, nil
}
