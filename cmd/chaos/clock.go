package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// clock is the true time and as much as a file says.
type clock struct {
	file  string
	ahead atomic.Int64 // nanoseconds
}

func newClock(file string) (*clock, error) {
	c := &clock{file: file}
	return c, c.read()
}

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// follow reads the file every so often until ctx ends.
func (c *clock) follow(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := c.read(); err != nil {
				fmt.Fprintln(os.Stderr, err) // it goes on with the time it has
			}
		}
	}
}

func (c *clock) read() error {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("how far is the clock ahead: %w", err)
	}
	by, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("how far is the clock ahead: %w", err)
	}
	c.ahead.Store(int64(by))
	return nil
}
