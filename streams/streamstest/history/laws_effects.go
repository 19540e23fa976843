package history

import (
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Asks is what an event asks of the world, or ends of what was asked.
type Asks struct {
	Opens  []domain.Effect
	Closes []string
	// Group ends all effects that were opened with it: those of a run.
	Group  string
	Starts []string
	// Scope ends all effects of the scope.
	Scope bool
}

// EffectsOf answers for the aggregates of a schema.
func EffectsOf(schema *codec.Schema) func(streams.Recorded) (Asks, error) {
	return func(v streams.Recorded) (Asks, error) {
		value, err := schema.Decode(v)
		if err != nil {
			return Asks{}, err
		}
		var a Asks
		if o, ok := value.(domain.Opens); ok {
			a.Opens = o.Opens()
		}
		if o, ok := value.(domain.Closes); ok {
			a.Closes = o.Closes()
		}
		if o, ok := value.(domain.ClosesGroup); ok {
			a.Group = o.ClosesGroup()
		}
		if o, ok := value.(domain.Starts); ok {
			a.Starts = o.Starts()
		}
		_, a.Scope = value.(domain.ClosesScope)
		return a, nil
	}
}

type effectKey struct {
	scope domain.Scope
	id    string
}

type effectLife struct {
	domain.Effect
	opened  string
	started bool
	ended   string // by which event
}

// effects: what was asked ends once, and what must not be repeated was done once at most, after it was said that it begins.
func (c *check) effects() {
	all := map[effectKey]*effectLife{}
	open := map[domain.Scope]map[string]*effectLife{}
	c.log.each(func(e *Entry) bool {
		if c.voided(e) {
			return true
		}
		for _, v := range e.Commit.Events {
			a, err := c.Effects(v)
			if err != nil {
				c.fault(LogReadable, "partition %d, offset %d: %v", e.Partition, e.Offset, err)
				continue
			}
			c.asks(v, a, all, open)
		}
		return true
	})
	c.Verdict.Effects = len(all)
	if c.Rest == AtRest {
		for scope, left := range open {
			for id := range left {
				c.fault(OneOutcome, "effect %s of %s never ended", id, scope)
			}
		}
	}
	if c.History != nil {
		_, _, done := c.History.snapshot()
		c.executions(done, all)
	}
}

func (c *check) asks(v streams.Recorded, a Asks, all map[effectKey]*effectLife, open map[domain.Scope]map[string]*effectLife) {
	if open[v.Scope] == nil {
		open[v.Scope] = map[string]*effectLife{}
	}
	end := func(id string, l *effectLife) {
		l.ended = v.ID
		delete(open[v.Scope], id)
	}
	for id, l := range open[v.Scope] {
		if a.Scope || a.Group != "" && l.Group == a.Group {
			end(id, l)
		}
	}
	for _, id := range a.Closes {
		switch l := all[effectKey{v.Scope, id}]; {
		case l == nil: // answered in the commit that would have asked: there was nothing to do
			all[effectKey{v.Scope, id}] = &effectLife{opened: v.ID, ended: v.ID}
		case l.ended != "" && l.ended != v.ID:
			c.Verdict.Repeated++
			c.fault(OneOutcome, "effect %s of %s ended with event %s, and again with %s (%s)", id, v.Scope, l.ended, v.ID, v.Type)
		default:
			end(id, l)
		}
	}
	for _, id := range a.Starts {
		switch l := open[v.Scope][id]; {
		case l == nil:
			c.fault(OneOutcome, "event %s begins effect %s of %s, which is not open", v.ID, id, v.Scope)
		case l.started:
			c.Verdict.Repeated++
			c.fault(OneOutcome, "event %s begins effect %s of %s a second time", v.ID, id, v.Scope)
		default:
			l.started = true
		}
	}
	for _, effect := range a.Opens {
		key := effectKey{v.Scope, effect.ID}
		if was := all[key]; was != nil && was.opened != v.ID {
			c.Verdict.Repeated++
			c.fault(OneOutcome, "effect %s of %s was asked for by event %s, and again by %s", effect.ID, v.Scope, was.opened, v.ID)
		}
		all[key] = &effectLife{Effect: effect, opened: v.ID}
		open[v.Scope][effect.ID] = all[key]
	}
}

func (c *check) executions(done []execution, all map[effectKey]*effectLife) {
	times := map[effectKey]int{}
	for _, d := range done {
		key := effectKey{d.scope, d.effect}
		l := all[key]
		if l == nil {
			c.fault(OneOutcome, "effect %s of %s was done, and nobody asked for it", d.effect, d.scope)
			continue
		}
		if times[key]++; times[key] > 1 && d.once {
			c.Verdict.Repeated++
			c.fault(OneOutcome, "effect %s of %s must not be repeated, and was done %d times", d.effect, d.scope, times[key])
		}
	}
}
