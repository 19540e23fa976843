package migrate

import (
	"context"
	"slices"

	"github.com/cairnhq/cairn/projections/places"
	"github.com/cairnhq/cairn/projections/vault"
)

// policy is where a policy stands in the old log.
type policy struct {
	name string
	next []int64 // by partition: what it has not seen begins there; the end where it never was
	// level says that it has seen everything.
	level bool
}

// findPolicies are all that ever ran. One whose place is lost has seen nothing since it began.
func (m *move) findPolicies(ctx context.Context) ([]policy, error) {
	era := m.From.Kafka.Topics.CurrentEra()
	begins, err := m.keys.Begins(ctx, era)
	if err != nil {
		return nil, err
	}
	stored, err := places.All(ctx, m.read)
	if err != nil {
		return nil, err
	}
	byName := map[string]*policy{}
	var names []string
	of := func(name string) *policy {
		if byName[name] == nil {
			byName[name] = &policy{name: name}
			names = append(names, name)
			for _, end := range m.closed {
				byName[name].next = append(byName[name].next, end.Next)
			}
		}
		return byName[name]
	}
	for _, b := range begins {
		if p := of(b.Policy); int(b.Partition) < len(p.next) {
			p.next[b.Partition] = min(b.Next, m.closed[b.Partition].Next)
		}
	}
	for _, at := range stored {
		if p := of(at.Policy); at.Era == era && int(at.Partition) < len(p.next) {
			p.next[at.Partition] = min(at.At.Next, m.closed[at.Partition].Next)
			if at.At.Acceptance == m.closed[at.Partition].Acceptance {
				p.next[at.Partition] = m.closed[at.Partition].Next
			}
		}
	}
	slices.Sort(names)
	all := make([]policy, len(names))
	for i, name := range names {
		p := byName[name]
		p.level = true
		for n, end := range m.closed {
			// Between its place and the close may be nothing but the close.
			p.level = p.level && p.next[n] >= end.Next
		}
		all[i] = *p
	}
	return all, nil
}

// last is from where on each partition of the old log comes last in the new one: what some policy has not seen.
func (m *move) last() []int64 {
	last := make([]int64, len(m.closed))
	for p, end := range m.closed {
		last[p] = end.Next
		for _, policy := range m.policies {
			last[p] = min(last[p], policy.next[p])
		}
	}
	return last
}

// newBegins are where policies begin in the new era: at what they have not seen. What they meet twice has the ids of
// the commands that came of it the first time.
func (m *move) newBegins() []vault.Begin {
	var begins []vault.Begin
	for _, policy := range m.policies {
		for q, end := range m.done.Ends {
			next := end.Next
			if !policy.level {
				next = m.done.Last[q]
			}
			begins = append(begins, vault.Begin{Policy: policy.name, Partition: int32(q), Next: next})
		}
	}
	return begins
}

// newPlaces are where policies go on that have seen everything. Another has none: it begins.
func (m *move) newPlaces() []places.Place {
	var all []places.Place
	for _, policy := range m.policies {
		for q, end := range m.done.Ends {
			if policy.level {
				all = append(all, places.Place{Policy: policy.name, Partition: int32(q), At: end})
			}
		}
	}
	return all
}
