package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cairnhq/cairn/clients/follow"
	"github.com/cairnhq/cairn/cmd/chaos/reconnect"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// following is a run under way.
type following struct {
	*reconnectCmd
	stage   *stage.Stage
	work    *work
	history *history.Recorder
	report  *reconnectReport
	log     *slog.Logger
	rand    *rand.Rand

	writes  *reconnect.Writes
	people  []*person
	clients []*client
	away    []*client // that come back a month later

	mu     sync.Mutex
	broken []string
}

// client is a witness that is online, or is not.
type client struct {
	*reconnect.Witness
	person *person
	stop   func() // nil: it is offline
}

// run opens everything, injures it, and judges.
func (f *following) run(ctx context.Context) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	defer func() {
		for _, c := range f.all() {
			f.offline(c)
		}
	}()
	for _, c := range f.all() {
		f.online(ctx, c)
		if err := c.Begun(ctx); err != nil {
			return err
		}
	}
	for _, c := range f.away {
		f.offline(c)
	}
	f.log.Info("clients follow", "clients", len(f.clients), "of", len(f.people))
	if err := f.turbulence(ctx); err != nil {
		return err
	}
	f.log.Info("no more writes: all are waited for")
	logs, heads, err := f.settle(ctx)
	if err != nil {
		return err
	}
	if err := f.month(ctx, heads); err != nil {
		return err
	}
	var witnesses []*reconnect.Witness
	for _, c := range f.all() {
		f.offline(c)
		witnesses = append(witnesses, c.Witness)
		n := c.Counts()
		met := &f.report.Met
		met.Connects, met.Slow, met.Told, met.Again, met.Holes = met.Connects+n.Connects, met.Slow+n.Slow, met.Told+n.Told, met.Again+n.Again, met.Holes+n.Holes
	}
	f.log.Info("everything is judged")
	var wrong []string
	wrong, f.report.Deliveries = reconnect.Judge(logs, f.history, witnesses)
	f.report.Events, f.report.Clients = heads.Events, len(witnesses)
	faults, notes := stage.Unplanned(f.stage.Ended())
	f.report.Notes = notes
	f.report.Broken = append(append(f.report.Broken, f.broken...), wrong...)
	for _, fault := range faults {
		f.report.Broken = append(f.report.Broken, "nobody planned that "+fault)
	}
	return nil
}

// all are those that stay and those that come back a month later.
func (f *following) all() []*client { return slices.Concat(f.clients, f.away) }

const threadsOfEach = 5

func (f *following) open(ctx context.Context) error {
	f.writes = &reconnect.Writes{Asker: f.work.asker, Threads: threadsOfEach, Rate: f.Rate, Run: fmt.Sprint("run-", f.Seed)}
	for n := range f.Users {
		p, err := newPerson(ctx, "http://"+f.stage.API.Addr(), n)
		if err != nil {
			return err
		}
		f.people = append(f.people, p)
		f.writes.Scopes = append(f.writes.Scopes, p.scope)
	}
	if err := f.writes.Open(ctx); err != nil {
		return err
	}
	var streams []domain.Stream
	for n := range threadsOfEach {
		streams = append(streams, f.writes.Stream(n))
	}
	for n, p := range f.people {
		of := func(what string, c reconnect.Config) *client {
			c.Name, c.URL, c.Token, c.Scope = fmt.Sprintf("%s of %d", what, n), "http://"+f.stage.Gate.Addr(), p.token, p.scope
			c.Silence, c.MaxBackoff, c.History, c.Log = 40*time.Second, 2*time.Second, f.history, f.log
			return &client{Witness: reconnect.NewWitness(c), person: p}
		}
		f.clients = append(f.clients,
			of("batched", reconnect.Config{Framing: follow.Batched, Whole: true, Late: true, Types: []string{"thread.opened"}}),
			of("single", reconnect.Config{Framing: follow.Single, Late: true, Streams: streams}))
		f.away = append(f.away, of("away", reconnect.Config{Framing: follow.Batched, Whole: true, Streams: streams[:1]}))
	}
	return nil
}

// online has a client follow, as a program that was just started.
func (f *following) online(ctx context.Context, c *client) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Online(ctx); err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.broken = append(f.broken, err.Error())
		}
	}()
	c.stop = func() { cancel(); <-done }
}

func (f *following) offline(c *client) {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// levelWithin is how long clients may take after the last write.
const levelWithin = 5 * time.Minute

// settle brings everybody online, and waits until all have everything.
func (f *following) settle(ctx context.Context) ([]*history.Log, reconnect.Heads, error) {
	began := time.Now()
	if err := f.stage.Ready(ctx); err != nil {
		return nil, reconnect.Heads{}, err
	}
	for _, c := range f.clients {
		if c.stop == nil {
			f.online(ctx, c)
		}
	}
	logs, heads, err := reconnect.Read(ctx, f.stage.Brokered())
	if err != nil {
		return nil, heads, err
	}
	f.level(ctx, f.clients, heads)
	f.report.Level = time.Since(began).Seconds()
	return logs, heads, nil
}

func (f *following) level(ctx context.Context, clients []*client, heads reconnect.Heads) {
	ctx, cancel := context.WithTimeout(ctx, levelWithin)
	defer cancel()
	for _, c := range clients {
		c.Cease(heads.Positions[c.Scope], heads.Of(c.Scope))
		if err := c.Level(ctx, heads.Positions[c.Scope], heads.Of(c.Scope)); err != nil {
			f.report.Broken = append(f.report.Broken, err.Error())
		}
	}
}
