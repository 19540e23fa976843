package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// inFlight bounds the requests that are under way at once: a Cairn that answers no more is seen as late, not as gone.
const inFlight = 256

// load asks at a fixed rate, whatever the answers take: a request that has to wait for its turn is late, and counts as slow.
type load struct {
	rate float64
	ask  func(context.Context) error

	mu       sync.Mutex
	took     []time.Duration // since fresh
	failures []error
	made     int // in all
}

// run asks until ctx ends, and returns when all that was asked is answered.
func (l *load) run(ctx context.Context) error {
	if l.rate <= 0 {
		return nil
	}
	// What was asked is answered, or given up by itself: a request that we broke off would look like a failed one.
	asking := context.WithoutCancel(ctx)
	slots := make(chan struct{}, inFlight)
	var group sync.WaitGroup
	defer group.Wait()
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		group.Go(func() {
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(asking, 30*time.Second)
			defer cancel()
			err := l.ask(limited)
			l.note(time.Since(due), err)
		})
	}
}

func (l *load) note(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	l.took = append(l.took, took)
	if err != nil {
		l.failures = append(l.failures, err)
	}
}

// fresh begins to measure anew, and answers what was measured since the last time, sorted.
func (l *load) fresh() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = nil
	slices.Sort(took)
	return took
}

// faults are how many answers were wrong and how many requests failed, and the first of them.
func (l *load) faults() (made, mixed, failed int, first error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.failures {
		var wrong *wrongAnswer
		if errors.As(err, &wrong) {
			if mixed++; mixed == 1 { // that says more than what failed
				first = err
			}
			continue
		}
		failed++
		first = cmp.Or(first, err)
	}
	return l.made, mixed, failed, first
}

// wrongAnswer is an answer that contradicts what was acknowledged, or what another answer showed before.
type wrongAnswer struct{ what string }

func (w *wrongAnswer) Error() string { return w.what }

func wrong(format string, args ...any) error { return &wrongAnswer{fmt.Sprintf(format, args...)} }
