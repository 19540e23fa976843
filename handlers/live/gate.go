package live

import "sync"

// gate counts what runs, so that whoever closes it can wait until all of it has stopped.
type gate struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// Go runs f on its own, unless the gate is closed.
func (g *gate) Go(f func()) bool {
	if !g.enter() {
		return false
	}
	go func() {
		defer g.wg.Done()
		f()
	}()
	return true
}

// enter counts the caller until it calls leave, unless the gate is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Add(1)
	return true
}

func (g *gate) leave() { g.wg.Done() }

// close lets nobody in any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait is for after close.
func (g *gate) wait() { g.wg.Wait() }
