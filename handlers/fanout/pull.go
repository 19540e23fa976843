package fanout

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairnhq/cairn/streams"
)

const (
	pullAtOnce = 64   // how many events of the ring are looked at together
	skipAtOnce = 4096 // how many that the filter leaves out are skipped in one Pull
)

// Pull answers what can be had now, at most about budget bytes: one event at least, if there is any. It never blocks and
// never loses anything. It is called by one goroutine at a time.
func (s *Subscription) Pull(budget int) Pulled {
	s.signalled.Store(false) // before anything is looked at: what comes later wakes again
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.closed.Load() {
		return Pulled{Cursor: s.cursor}
	}
	var out Pulled
	if r := s.reset.Load(); r == nil || r.Reason != NoAccess {
		s.events(&out, budget)
	}
	out.Cursor = s.cursor
	if r := s.reset.Load(); r != nil {
		if r.Reason == NoAccess {
			out.Events, out.Live = nil, nil
		}
		out.Reset, out.More, s.over = r, false, true
	}
	return out
}

// events fills out.
func (s *Subscription) events(out *Pulled, budget int) {
	var room [pullAtOnce]*Event
	counts := [3]int{}
	skipped, newest := 0, (*Event)(nil)
	for !out.More && s.reset.Load() == nil {
		found, more, where := s.found(&room)
		if len(found) == 0 {
			break
		}
		out.More = more
		for i, e := range found {
			if budget <= 0 || skipped >= skipAtOnce {
				out.More = true
				break
			}
			given, ok := s.give(e)
			if !ok {
				out.More = false
				s.hub.metrics.took(counts, newest)
				s.live(out, budget)
				return // it goes on when somebody has answered
			}
			out.More = more || i+1 < len(found)
			if !given {
				skipped++
				continue
			}
			if out.Events == nil {
				out.Events = make([]*Event, 0, len(found)-i)
			}
			out.Events = append(out.Events, e)
			budget -= len(e.bytes(s.want.Form))
			counts[where]++
			if where == fromRing {
				newest = e
			}
		}
		if budget > 0 && skipped < skipAtOnce {
			out.More = false // go round: there may be more
		}
	}
	s.hub.metrics.took(counts, newest)
	if !out.More {
		s.live(out, budget)
	}
}

// found is what comes next: of the page, or of the ring. Where neither has it, a page is asked for.
func (s *Subscription) found(room *[pullAtOnce]*Event) (found []*Event, more bool, where source) {
	for range 2 {
		if len(s.rest) > 0 {
			where = fromEvents
			if s.source == sourceLog {
				where = fromLog
			}
			n := min(len(s.rest), pullAtOnce)
			return s.rest[:n], len(s.rest) > n, where
		}
		n, more, ok := s.topic.after(s.cursor, room[:])
		if ok {
			return room[:n], more, fromRing
		}
		if s.load(); s.loading {
			break
		}
	}
	return nil, false, fromRing
}

// give moves the cursor over an event, and says whether the subscriber gets it; not ok: that can't be told, or done, now.
func (s *Subscription) give(e *Event) (given, ok bool) {
	if s.check != nil {
		if !same(s.check, e.Hash) {
			s.otherHash()
			return false, false
		}
		s.check = nil
		s.move(e)
		return false, true
	}
	given, ok = s.matches(e)
	if !ok {
		return false, false
	}
	if given && !s.prepared(e) {
		return false, false
	}
	s.move(e)
	return given, true
}

func (s *Subscription) move(e *Event) {
	s.cursor = s.topic.cursor(e)
	if e.place != nil {
		s.place = e.place
	}
	if len(s.rest) > 0 {
		s.rest[0] = nil
		if s.rest = s.rest[1:]; len(s.rest) == 0 {
			s.rest = nil
		}
		if s.want.Live != Committed {
			s.topic.mu.Lock()
			s.topic.frames.ends(e, s.hub.Schema)
			s.topic.mu.Unlock()
		}
	}
}

// matches says whether the filter wants an event; not ok: who answers its run is being asked.
func (s *Subscription) matches(e *Event) (wanted, ok bool) {
	f := &s.want.Filter
	if len(f.Types) > 0 && !slices.Contains(f.Types, e.Type) {
		return false, true
	}
	if f.AgentID == "" {
		return true, true
	}
	run := e.runOf()
	if run == "" {
		return false, true
	}
	said, ok := s.hub.agents.of(runKey{e.Scope, run})
	if !ok {
		s.ask(run)
		return false, false
	}
	return said.agent == f.AgentID && e.Position >= said.since, true
}

// live adds the provisional frames.
func (s *Subscription) live(out *Pulled, budget int) {
	if s.want.Live == Committed {
		return
	}
	s.topic.mu.RLock()
	defer s.topic.mu.RUnlock()
	f := &s.topic.frames
	if s.frames == f.end() {
		return
	}
	spent := 0
	out.Live, s.frames, spent = f.after(s.frames, s.cursor, max(budget, 1))
	s.hub.metrics.provisional.Add(float64(len(out.Live)))
	out.More = out.More || s.frames < f.end() && spent > 0
}

// prepared reports whether an event is ready to be given. Where its key is not in memory, it is fetched, once for all who
// wait for it.
func (s *Subscription) prepared(e *Event) bool {
	if e.made(s.want.Form) {
		return true
	}
	t := s.topic
	t.mu.RLock()
	fetching := t.opening != nil
	t.mu.RUnlock()
	if !fetching {
		err := e.make(s.hub.cached, s.hub, s.want.Form)
		if err == nil {
			return true
		}
		if errors.Is(err, streams.ErrScopeErased) {
			s.reset.CompareAndSwap(nil, &Reset{Reason: NoAccess})
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opening == nil {
		if !s.hub.tasks.begin(func(ctx context.Context) { t.open(ctx, e, s.want.Form) }) {
			return false
		}
	} else if e.made(s.want.Form) {
		return true
	}
	t.opening = append(t.opening, s)
	return false
}

// open prepares an event with a key that must be fetched, and wakes who waits for it.
func (t *topic) open(ctx context.Context, e *Event, f Form) {
	h := t.partition.hub
	for {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := h.Keys.Version(short, e.Scope, e.recorded.Key) // the event is not held meanwhile: others pull it, too
		cancel()
		if err == nil {
			err = e.make(h.cached, h, f)
		}
		erased := errors.Is(err, streams.ErrScopeErased)
		if err == nil || erased || ctx.Err() != nil {
			t.mu.Lock()
			waiting := t.opening
			t.opening = nil
			t.mu.Unlock()
			for _, s := range waiting {
				if erased {
					s.reset.CompareAndSwap(nil, &Reset{Reason: NoAccess})
				}
				s.signal()
			}
			return
		}
		h.Log.WarnContext(ctx, "content can't be opened now, trying again", "stream", e.Stream, "error", err)
		_ = pause(ctx, time.Second/2) // ctx is looked at above
	}
}
