package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// URLs are where clients go.
type URLs struct {
	API  string // HTTP
	Gate string // sockets
}

// Config says how much load.
type Config struct {
	Dir     string // of the devices' databases
	Seed    uint64
	Users   int           // with two clients and a subscriber each; 0: 6
	Devices int           // users with a device; 0: 2
	Pace    time.Duration // a client's mean pause between commands; 0: 300 ms
}

// Load is clients at work.
type Load struct {
	urls    URLs
	history *history.Recorder
	http    *http.Client
	pace    time.Duration
	clients []*client
	devices []*deviceUser
	readers []*reader

	mu       sync.Mutex
	waits    []span
	acks     []Acknowledged
	notes    map[string]int
	open     []string
	mischiev float64
	repeated int
	onCall   func(device.Call)
	onFrame  func(device.Frame)
}

// Acknowledged is a command that a client was told the decision on.
type Acknowledged struct {
	Key streams.CommandKey
	At  time.Time // when it was first sent
}

// span is how long a client waited for a decision, repeats included.
type span struct{ from, to time.Time }

// New registers the users. Run sets them to work.
func New(ctx context.Context, c Config, urls URLs, h *history.Recorder) (*Load, error) {
	l := &Load{
		urls: urls, history: h, pace: cmp.Or(c.Pace, 300*time.Millisecond), notes: map[string]int{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}},
	}
	for i := range cmp.Or(c.Users, 6) {
		u, err := l.register(ctx, fmt.Sprintf("user%d@example.com", i))
		if err != nil {
			return nil, fmt.Errorf("register a user: %w", err)
		}
		for j := range 2 {
			name := fmt.Sprintf("client %d.%d", i, j)
			l.clients = append(l.clients, &client{user: u, name: name, rand: rand.New(rand.NewPCG(c.Seed, uint64(i*2+j))), dear: j == 0}) //nolint:gosec // no secret
		}
		l.readers = append(l.readers, newReader(u, fmt.Sprintf("subscriber %d", i)))
	}
	for i := range cmp.Or(c.Devices, 2) {
		u, err := l.register(ctx, fmt.Sprintf("device%d@example.com", i))
		if err != nil {
			return nil, fmt.Errorf("register a user with a device: %w", err)
		}
		d, err := l.newDevice(ctx, u, filepath.Join(c.Dir, fmt.Sprintf("device%d.db", i)), fmt.Sprintf("device %d", i))
		if err != nil {
			return nil, err
		}
		l.devices = append(l.devices, d)
		l.readers = append(l.readers, newReader(u, fmt.Sprintf("subscriber of device %d", i)))
	}
	return l, nil
}

// settleWithin is how long clients go on repeating what was not decided when the load ends.
const settleWithin = 90 * time.Second

// Run works until ctx ends, then settles what is open, has every subscriber read to the end, and returns.
func (l *Load) Run(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	hard, give := context.WithCancel(base)
	defer give()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(settleWithin, give) })
	defer stop()
	reading, enough := context.WithCancel(base)
	defer enough()
	var writers, readers sync.WaitGroup
	for _, c := range l.clients {
		writers.Go(func() { c.run(ctx, hard) })
	}
	for _, d := range l.devices {
		writers.Go(func() { d.run(ctx, hard) })
	}
	for _, r := range l.readers {
		readers.Go(func() { r.run(reading) })
	}
	writers.Wait()
	enough()
	readers.Wait()
	l.http.CloseIdleConnections()
}

// Fresh waits until every client has sent a command and was told what became of it, from now on. Devices that take long to
// notice that their sockets are gone are not waited for.
func (l *Load) Fresh(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	before := make([]int64, len(l.clients))
	for i, c := range l.clients {
		before[i] = c.turns.Load()
	}
	for i, c := range l.clients {
		for c.turns.Load() < before[i]+2 { // one may have been under way
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not answered: %w", c.name, ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}

// Level has every subscriber read to the end of what there is.
func (l *Load) Level(ctx context.Context) error {
	for _, r := range l.readers {
		if err := r.level(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the devices' stores.
func (l *Load) Close() {
	for _, d := range l.devices {
		d.store.Close() //nolint:errcheck,gosec // scratch
	}
}

// decided records that a client was told the decision on a command that it first sent at from.
func (l *Load) decided(key streams.CommandKey, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, span{from, time.Now()})
	l.acks = append(l.acks, Acknowledged{Key: key, At: from})
}

// Acknowledged are the commands that clients were told the decisions on.
func (l *Load) Acknowledged() []Acknowledged {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Acknowledged(nil), l.acks...)
}

// Longest is the longest that a client waited for the decision on one command, of those sent in [from, to).
func (l *Load) Longest(from, to time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := time.Duration(0)
	for _, s := range l.waits {
		if !s.from.Before(from) && s.from.Before(to) {
			longest = max(longest, s.to.Sub(s.from))
		}
	}
	return longest
}

// Mischief has clients send this share of their commands several times at once and in no order.
func (l *Load) Mischief(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mischiev = share
}

func (l *Load) mischief() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mischiev
}

func (l *Load) mischiefDone(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.repeated += n
}

// Repeated is how many copies of commands Mischief has sent.
func (l *Load) Repeated() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.repeated
}

// OnDevice has call called at each tool call that reaches a device, and frame at each frame. Nil: nothing.
func (l *Load) OnDevice(call func(device.Call), frame func(device.Frame)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onCall, l.onFrame = call, frame
}

func (l *Load) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes[text]++
}

// Notes are oddities that clients met, and how often.
func (l *Load) Notes() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for text, n := range l.notes {
		all[text] = n
	}
	return all
}

func (l *Load) undecided(c command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c.method+" "+c.path+" "+c.key)
}

// Undecided are commands that nobody could say anything about, to the end.
func (l *Load) Undecided() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.open...)
}
