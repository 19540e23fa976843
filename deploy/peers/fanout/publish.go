package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/centrifugal/centrifuge"
)

// order is what the benchmark asks for.
type order struct {
	Do     string  `json:"do"` // token, publish, flood, upto, halt, memory, cpu
	User   string  `json:"user"`
	Stream string  `json:"stream"` // the channel
	From   int64   `json:"from"`
	Count  int64   `json:"count"`
	UpTo   int64   `json:"up_to"`
	Rate   float64 `json:"rate"`
	// Payload is what stands before and after the number.
	Payload [2]string `json:"payload"`
}

type answer struct {
	Error      string  `json:"error,omitempty"`
	Token      string  `json:"token,omitempty"`
	Committed  []int64 `json:"committed,omitempty"` // Unix nanoseconds, by number
	Last       int64   `json:"last,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"`
	Goroutines int     `json:"goroutines,omitempty"`
	CPU        int64   `json:"cpu,omitempty"` // nanoseconds
}

// history is how much a channel keeps: more than anybody here is behind.
const history = 4096

type publisher struct {
	node *centrifuge.Node

	flooding sync.WaitGroup
	upTo     atomic.Int64 // numbers below it may be published
	halted   atomic.Bool
	more     chan struct{}
	last     int64
	failed   error
}

func (p *publisher) obey(o order) (a answer, silent bool) {
	var err error
	switch o.Do {
	case "token":
		a.Token = tokenOf(o.User)
	case "publish":
		a.Committed, err = p.publish(o)
	case "flood":
		p.flood(o)
	case "upto":
		p.upTo.Store(o.UpTo)
		p.signal()
		return a, true
	case "halt":
		p.halted.Store(true)
		p.signal()
		p.flooding.Wait()
		a.Last, err = p.last, p.failed
	case "memory":
		a.Bytes, err = resident()
		a.Goroutines = runtime.NumGoroutine()
	case "cpu":
		a.CPU = processTime()
	default:
		err = fmt.Errorf("there is no order %q", o.Do)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a, false
}

func (p *publisher) one(o order, n int64) error {
	var options []centrifuge.PublishOption
	if strings.HasPrefix(o.Stream, "history:") {
		options = append(options, centrifuge.WithHistory(history, time.Hour))
	}
	_, err := p.node.Publish(o.Stream, fmt.Appendf(nil, "%s%08d%s", o.Payload[0], n, o.Payload[1]), options...)
	return err
}

// publish publishes at a steady rate, and answers when each was.
func (p *publisher) publish(o order) ([]int64, error) {
	at := make([]int64, 0, o.Count)
	began := time.Now()
	for i := range o.Count {
		if wait := time.Until(began.Add(time.Duration(float64(i) / o.Rate * float64(time.Second)))); wait > 0 {
			<-time.After(wait)
		}
		at = append(at, time.Now().UnixNano())
		if err := p.one(o, o.From+i); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// flood publishes as fast as it may, until it is halted.
func (p *publisher) flood(o order) {
	p.halted.Store(false)
	p.failed, p.more = nil, make(chan struct{}, 1)
	p.upTo.Store(o.UpTo)
	p.flooding.Go(func() {
		for p.last = o.From; !p.halted.Load(); p.last++ {
			for p.last >= p.upTo.Load() && !p.halted.Load() {
				<-p.more
			}
			if p.halted.Load() {
				return
			}
			if p.failed = p.one(o, p.last); p.failed != nil {
				return
			}
		}
	})
}

func (p *publisher) signal() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// resident is the memory of the process after what is not used was given back.
func resident() (int64, error) {
	for range 3 { // pools need two
		runtime.GC()
	}
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmRSS")
}

func processTime() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
