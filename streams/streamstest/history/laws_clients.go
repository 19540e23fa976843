package history

import (
	"cmp"
	"slices"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// answers: what clients were told is what the log says, and a repeat is told the same.
func (c *check) answers() {
	first := map[streams.CommandKey]*Op{}
	for i := range c.ops {
		o := &c.ops[i]
		c.Verdict.Ops.Asked++
		switch o.ending {
		case pending, unknown:
			c.Verdict.Ops.Unknown++
			continue
		case refused:
			c.Verdict.Ops.Refused++
			continue
		case accepted:
			c.Verdict.Ops.Accepted++
		case rejected:
			c.Verdict.Ops.Rejected++
		}
		key := o.key()
		e := c.by[key]
		if o.no != nil && c.spoken(o, e) {
			continue
		}
		if e == nil {
			c.Verdict.Lost++
			c.fault(Acknowledged, "%s was told %s, and command %s of %s is not in the log", o.client, o.told(), key.ID, key.Scope)
			continue
		}
		if !c.voided(e) && e.unread == nil {
			c.compare(o, e)
		}
		if before := first[key]; before == nil {
			first[key] = o
		} else if before.request.Fingerprint != o.request.Fingerprint && len(e.Commit.Fingerprint) > 0 {
			c.fault(SameAnswer, "command %s of %s: %s was told %s, and %s, who asked something else, %s", key.ID, key.Scope, before.client, before.told(), o.client, o.told())
		} else if !sameAnswer(before, o) {
			c.fault(SameAnswer, "command %s of %s: %s was told %s, and %s %s", key.ID, key.Scope, before.client, before.told(), o.client, o.told())
		}
	}
}

func (o *Op) key() streams.CommandKey {
	return streams.CommandKey{Scope: o.request.Scope, ID: o.request.CommandID}
}

// spoken reports whether a rejection is one that is no decision of this command, and judges that.
func (c *check) spoken(o *Op, e *Entry) bool {
	switch o.no.Code {
	case domain.CodeIDReused:
		if e == nil {
			c.fault(SameAnswer, "%s was told that id %s of %s was used, and nothing was decided under it", o.client, o.request.CommandID, o.request.Scope)
		} else if !c.another(o) {
			c.fault(SameAnswer, "%s was told that id %s of %s was used for another request, and nobody sent another", o.client, o.request.CommandID, o.request.Scope)
		}
		return true
	case domain.CodeScopeErased:
		if e == nil && !c.erased(o.request.Scope) {
			c.fault(Acknowledged, "%s was told that %s is erased, and it is not", o.client, o.request.Scope)
		}
		return e == nil
	}
	return false
}

// another reports whether someone asked something else under the same id.
func (c *check) another(o *Op) bool {
	return slices.ContainsFunc(c.ops, func(other Op) bool {
		return other.key() == o.key() && other.request.Fingerprint != o.request.Fingerprint && other.ending != refused
	})
}

func (c *check) erased(scope domain.Scope) bool {
	found := false
	c.log.each(func(e *Entry) bool {
		if e.Commit.Scope != scope {
			return true
		}
		found = slices.ContainsFunc(e.Commit.Events, func(v streams.Recorded) bool { return v.Type == "account.erased" })
		return !found
	})
	return found
}

// compare holds one answer against the commit.
func (c *check) compare(o *Op, e *Entry) {
	m, a := e.Commit, o.answer
	bad := func(why string) {
		c.Verdict.Lost++
		c.fault(Acknowledged, "%s was told %s of command %s of %s, and the log at offset %d of partition %d says otherwise: %s",
			o.client, o.told(), m.CommandID, m.Scope, e.Offset, e.Partition, why)
	}
	switch {
	case (m.Rejected != nil) != (o.no != nil):
		bad("yes for no")
	case o.no != nil && (o.no.Code != m.Rejected.Code || o.no.Reason != m.Rejected.Reason && o.no.Reason != ""):
		bad("the rejection is " + m.Rejected.Error())
	case o.no != nil:
	case a.Position.Scope != "" && (a.Position.Scope != m.Scope || a.Position.Position != e.Position):
		bad("another position")
	case a.Position.Scope != "" && a.Position.Era == m.Era && (a.Position.Partition != e.Partition || a.Position.Offset != e.Offset):
		bad("another place")
	case len(a.Heads) > 0 && !sameHeads(a.Heads, heads(m)):
		bad("other streams or versions")
	case !a.DecidedAt.IsZero() && a.DecidedAt.UTC().Format(streams.TimeLayout) != m.DecidedAt:
		bad("another time")
	}
}

func sameAnswer(a, b *Op) bool {
	if (a.no != nil) != (b.no != nil) {
		return false
	}
	if a.no != nil {
		return a.no.Code == b.no.Code && (a.no.Reason == b.no.Reason || a.no.Reason == "" || b.no.Reason == "")
	}
	p, q := a.answer.Position, b.answer.Position
	return p.Scope == "" || q.Scope == "" || p.Scope == q.Scope && p.Position == q.Position && (p.Era != q.Era || p == q)
}

func (o *Op) told() string {
	if o.no != nil {
		return o.no.Error()
	}
	return "yes, position " + position(o.answer.Position)
}

// phantoms: what stands in the log was asked by somebody, and not only by those who were refused.
func (c *check) phantoms() {
	asked := map[streams.CommandKey]ending{}
	for i := range c.ops {
		o := &c.ops[i]
		if was, ok := asked[o.key()]; !ok || was == refused {
			asked[o.key()] = o.ending
		}
	}
	c.log.each(func(e *Entry) bool {
		m := e.Commit
		if m.CommandID == "" || c.Invoked != nil && !c.Invoked(m) {
			return true
		}
		switch how, ok := asked[streams.CommandKey{Scope: m.Scope, ID: m.CommandID}]; {
		case !ok:
			c.fault(Phantom, "command %s of %s at offset %d was asked by nobody", m.CommandID, m.Scope, e.Offset)
		case how == refused:
			c.fault(Phantom, "command %s of %s at offset %d was refused to everybody who asked it", m.CommandID, m.Scope, e.Offset)
		}
		return true
	})
}

// order: of two commands of one scope, the one that was answered before the other was asked stands before it.
func (c *check) order() {
	type span struct {
		invoked, ended int64 // the first time anybody asked, the first time anybody knew
		name           string
		at             *Entry
	}
	spans := map[streams.CommandKey]*span{}
	for i := range c.ops {
		o := &c.ops[i]
		e := c.by[o.key()]
		if e == nil || o.ending == refused {
			continue
		}
		s := spans[o.key()]
		if s == nil {
			s = &span{invoked: o.invoked, name: o.client, at: e}
			spans[o.key()] = s
		}
		if decided := o.ending == accepted || o.ending == rejected; decided && (s.ended == 0 || o.ended < s.ended) {
			s.ended = o.ended
		}
	}
	sorted := make([]*span, 0, len(spans))
	for _, s := range spans {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.at.Partition, b.at.Partition), cmp.Compare(a.at.Offset, b.at.Offset))
	})
	latest := map[int32]*span{} // of those before it in the log, the one that was asked last
	for _, s := range sorted {
		if l := latest[s.at.Partition]; l != nil && s.ended != 0 && s.ended < l.invoked {
			c.fault(RealTime, "command %s at offset %d was answered (%s) before command %s at offset %d was asked (%s)",
				s.at.Commit.CommandID, s.at.Offset, s.name, l.at.Commit.CommandID, l.at.Offset, l.name)
		}
		if l := latest[s.at.Partition]; l == nil || s.invoked > l.invoked {
			latest[s.at.Partition] = s
		}
	}
}
