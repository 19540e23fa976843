package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairnhq/cairn/cmd/cairn/app"
	"github.com/cairnhq/cairn/cmd/chaos/stage"
)

// The injuries of a run.
const (
	cutAll        = "every connection cut"
	silenceAll    = "every connection half-open"
	restart       = "a gateway restarted in good order"
	kill          = "a gateway killed"
	noProjector   = "every projector stopped"
	otherWriter   = "a writer restarted: its partitions are led by another"
	otherBroker   = "a broker restarted: its partitions move"
	clientAway    = "a client away for a while, as a program that ends"
	healLimit     = 2 * time.Minute
	betweenAtMost = 4 * time.Second
)

func injuries() []string {
	return []string{cutAll, silenceAll, restart, kill, noProjector, otherWriter, otherBroker, clientAway}
}

// turbulence writes and injures for as long as the run is to last.
func (f *following) turbulence(ctx context.Context) error {
	long := time.Duration(f.Minutes * float64(time.Minute))
	running, stop := context.WithTimeout(ctx, long)
	defer stop()
	var mu sync.Mutex // of rand, which the proxy asks
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return f.rand.IntN(n)
	}
	f.stage.Gate.Fray(func() (up, down int64) {
		if draw(3) == 0 {
			return -1, -1 // one in three is sound
		}
		return int64(draw(1 << 14)), int64(draw(16 << 20))
	})
	defer f.stage.Gate.Fray(nil)
	var going sync.WaitGroup
	began, before := time.Now(), f.writes.Committed()
	going.Go(func() { f.writes.Write(running, ctx) })
	going.Go(func() { f.longOffline(running, ctx) })
	var projectors sync.WaitGroup
	var err error
	for running.Err() == nil && err == nil {
		names := injuries()
		mu.Lock()
		f.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		mu.Unlock()
		for _, name := range names {
			if err = f.injure(running, ctx, name, draw, &projectors); err != nil || pauseFor(running, time.Duration(draw(int(betweenAtMost)))) != nil {
				break
			}
		}
	}
	projectors.Wait()
	going.Wait()
	f.report.Commands, f.report.Repeated = f.writes.Committed(), f.writes.Failed()
	f.report.Rate = float64(f.report.Commands-before) / time.Since(began).Seconds()
	return err
}

// injure injures once, and returns when what was broken works again; the projectors stay away meanwhile.
func (f *following) injure(running, ctx context.Context, name string, draw func(int) int, projectors *sync.WaitGroup) error {
	f.log.Info(name, "commands", f.writes.Committed())
	f.report.Injuries[name]++
	s := f.stage
	one := func(role string) *stage.Process { return s.With(role)[draw(s.Of)] }
	again := func(p *stage.Process, end func()) error {
		end()
		if err := p.Start(); err != nil {
			return err
		}
		heal, cancel := context.WithTimeout(ctx, healLimit)
		defer cancel()
		return p.Ready(heal)
	}
	switch name {
	case cutAll:
		s.Gate.Cut()
	case silenceAll:
		s.Gate.Silence()
	case restart:
		p := one(app.RoleGateway)
		return again(p, p.Stop)
	case kill:
		p := one(app.RoleGateway)
		return again(p, p.Kill)
	case otherWriter:
		p := one(app.RoleWriter)
		return again(p, p.Stop)
	case otherBroker:
		if f.Brokers == 1 {
			f.report.Injuries[name]-- // nothing would move
			return nil
		}
		n := 1 + draw(f.Brokers)
		if err := s.Kafka.Stop(n); err != nil {
			return err
		}
		return s.Kafka.StartBroker(ctx, n)
	case clientAway:
		c := f.clients[draw(len(f.clients)/2)] // those of the other half are away for long, or there all the time
		f.offline(c)
		_ = pauseFor(running, time.Duration(draw(int(20*time.Second)))) // running is looked at by the caller
		f.online(ctx, c)
	case noProjector:
		projectors.Wait() // one time after the other
		for _, p := range s.With(app.RoleProjector) {
			if err := p.Ready(ctx); err != nil { // one that only begins can't end in good order
				return err
			}
			p.Stop()
		}
		away := time.Minute + time.Duration(draw(int(2*time.Minute)))
		away = min(away, time.Duration(f.Minutes*float64(time.Minute))/4)
		projectors.Go(func() {
			began := time.Now()
			_ = pauseFor(running, away)
			f.report.Still += time.Since(began).Seconds()
			if err := s.Start(s.With(app.RoleProjector)...); err != nil {
				f.log.Error("the projectors do not start", "error", err) // and so nobody gets level
			}
		})
	}
	return nil
}

// longOffline has one client of each second half stay offline for minutes.
func (f *following) longOffline(running, ctx context.Context) {
	c := f.clients[len(f.clients)-1]
	spare := time.Duration((f.Minutes - f.Offline) * float64(time.Minute))
	if spare < 0 || pauseFor(running, spare/2) != nil {
		return
	}
	f.offline(c)
	began := time.Now()
	err := pauseFor(running, time.Duration(f.Offline*float64(time.Minute)))
	f.report.Offline = time.Since(began).Seconds()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		f.online(ctx, c)
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
