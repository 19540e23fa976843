package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// States compares what writers stored with the fold of the last log: it may be behind, but never beside it. With a
// schema the states themselves are folded again, too. Its error says that the store did not answer.
func States(ctx context.Context, e Evidence, states streams.States, schema *codec.Schema) ([]Fault, error) {
	c := newCheck(e)
	c.Verdict.Faults = nil
	c.log = e.Logs[len(e.Logs)-1]
	c.commits()
	c.Verdict.Faults = nil // of the log itself, which Check reports
	for p := range c.log.Partitions {
		what := streams.Lookup{}
		for i := range c.log.Partitions[p] {
			if e := &c.log.Partitions[p][i]; e.Counts && e.Commit != nil && e.Commit.CommandID != "" {
				what.Commands = append(what.Commands, streams.CommandKey{Scope: e.Commit.Scope, ID: e.Commit.CommandID})
			}
		}
		for key := range c.last {
			if kafkaPartition(key.Scope, len(c.log.Partitions)) == int32(p) {
				what.Streams = append(what.Streams, key)
			}
		}
		for scope := range c.heads {
			if kafkaPartition(scope, len(c.log.Partitions)) == int32(p) {
				what.Scopes = append(what.Scopes, scope)
			}
		}
		found, err := states.Load(ctx, int32(p), what)
		if err != nil {
			return nil, fmt.Errorf("history: states of partition %d: %w", p, err)
		}
		c.checkpoint(p, found.Checkpoint)
		c.stateRows(found, schema)
		c.answerRows(p, found)
	}
	return c.Verdict.Faults, nil
}

// checkpoint: what a writer remembers is what the log says up to there.
func (c *check) checkpoint(p int, at streams.Checkpoint) {
	now := c.log.At(int32(p), at.Next)
	switch {
	case at.Next > c.log.Ends[p]:
		c.fault(StatesFold, "partition %d was stored up to %d, and the log ends at %d", p, at.Next, c.log.Ends[p])
	case now != at.Acceptance:
		c.fault(StatesFold, "partition %d was stored up to %d with %+v, and the log says %+v", p, at.Next, at.Acceptance, now)
	}
}

func (c *check) stateRows(found streams.Snapshot, schema *codec.Schema) {
	for _, row := range found.States {
		v := c.at[spot{row.Scope, row.Stream, row.Version}]
		switch {
		case v == nil:
			c.fault(StatesFold, "version %d of %s of %s was stored, and the log does not have it", row.Version, row.Stream, row.Scope)
		case !bytes.Equal(v.Hash, row.Hash):
			c.fault(StatesFold, "version %d of %s of %s was stored with another hash than the log's", row.Version, row.Stream, row.Scope)
		case schema != nil:
			if why := c.folded(row, schema); why != "" {
				c.fault(StatesFold, "the state of %s of %s at version %d: %s", row.Stream, row.Scope, row.Version, why)
			}
		}
	}
	for _, row := range found.Scopes {
		if row.Position > c.heads[row.Scope] {
			c.fault(StatesFold, "position %d of %s was stored, and the log ends at %d", row.Position, row.Scope, c.heads[row.Scope])
		}
		if row.Erased && !c.erased(row.Scope) {
			c.fault(StatesFold, "%s was stored as erased, and the log does not say so", row.Scope)
		}
	}
}

// folded says how a stored state differs from the fold of its stream, unless it is of another release.
func (c *check) folded(row streams.StateRow, schema *codec.Schema) string {
	a, ok := schema.Aggregate(row.Stream.Kind())
	if !ok {
		return "no aggregate is called so"
	}
	if row.Fold != a.Fold {
		return ""
	}
	state := a.Zero()
	for version := uint64(1); version <= row.Version; version++ {
		v := c.at[spot{row.Scope, row.Stream, version}]
		if v == nil {
			if len(c.Voids) > 0 {
				continue
			}
			return fmt.Sprintf("the log has no version %d", version)
		}
		event, err := schema.Decode(*v)
		if err != nil {
			return err.Error()
		}
		state = a.Evolve(state, event)
	}
	text, err := a.EncodeState(state)
	if err != nil {
		return err.Error()
	}
	if !sameJSON(text, row.State) {
		return fmt.Sprintf("stored %s, the fold is %s", row.State, text)
	}
	return ""
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// answerRows: every command decided before the checkpoint is known, with the answer that the log gives.
func (c *check) answerRows(p int, found streams.Snapshot) {
	known := map[streams.CommandKey]streams.AnswerRow{}
	for _, row := range found.Answers {
		known[streams.CommandKey{Scope: row.Scope, ID: row.CommandID}] = row
	}
	for i := range c.log.Partitions[p] {
		e := &c.log.Partitions[p][i]
		if !e.Counts || e.Commit == nil || e.Commit.CommandID == "" || c.voided(e) || e.unread != nil {
			continue
		}
		m := e.Commit
		row, ok := known[streams.CommandKey{Scope: m.Scope, ID: m.CommandID}]
		switch {
		case !ok && e.Offset < found.Checkpoint.Next:
			c.fault(StatesFold, "command %s of %s at offset %d was not stored, though everything up to %d was", m.CommandID, m.Scope, e.Offset, found.Checkpoint.Next)
		case !ok:
		case row.Position != e.Position, !sameRejection(row.Rejected, m.Rejected), !sameHeads(row.Heads, heads(m)), !bytes.Equal(row.Fingerprint, m.Fingerprint),
			row.Era == m.Era && row.Offset != e.Offset, row.DecidedAt != m.DecidedAt:
			c.fault(StatesFold, "command %s of %s was stored as %+v, and the log at offset %d says %+v", m.CommandID, m.Scope, row, e.Offset, m)
		}
	}
}

// CheckMoved compares a log with what it was moved to: the same commits in each scope's order, every event byte for byte,
// ids, versions, positions and hashes unchanged. Voids are those of the old log; their events need not be there.
func CheckMoved(from, to *Log, voids map[int32]map[int64]bool) []Fault {
	c := &check{Evidence: Evidence{Voids: voids}, log: from}
	old, moved := c.byScope(from), c.byScope(to)
	for scope, commits := range old {
		now := moved[scope]
		if len(now) < len(commits) {
			c.fault(Moved, "%s had %d commits, and has %d", scope, len(commits), len(now))
		}
		for i := range min(len(commits), len(now)) {
			a, b := commits[i], now[i]
			if why := different(a, b, c.voided(a)); why != "" {
				c.fault(Moved, "%s, commit %d (command %s, offset %d of partition %d, now %d of %d): %s",
					scope, i+1, a.Commit.CommandID, a.Offset, a.Partition, b.Offset, b.Partition, why)
				break
			}
		}
	}
	for scope := range moved {
		if old[scope] == nil {
			for _, e := range moved[scope] {
				if e.Mark.Era < to.Counted[e.Partition].Era {
					c.fault(Moved, "%s was not there before", scope)
					break
				}
			}
		}
	}
	return c.Verdict.Faults
}

func (c *check) byScope(l *Log) map[domain.Scope][]*Entry {
	all := map[domain.Scope][]*Entry{}
	l.each(func(e *Entry) bool {
		if e.Commit.CommandID != "" {
			all[e.Commit.Scope] = append(all[e.Commit.Scope], e)
		}
		return true
	})
	return all
}

func different(a, b *Entry, voided bool) string {
	m, n := a.Commit, b.Commit
	switch {
	case m.CommandID != n.CommandID:
		return "it is command " + n.CommandID
	case m.DecidedAt != n.DecidedAt, !bytes.Equal(m.Actor, n.Actor), m.CorrelationID != n.CorrelationID, m.CausationID != n.CausationID,
		!bytes.Equal(m.Fingerprint, n.Fingerprint):
		return "time, actor, correlation, causation or fingerprint changed"
	case voided:
		return ""
	case !sameRejection(m.Rejected, n.Rejected), a.Position != b.Position:
		return "the answer changed"
	case len(a.Events) != len(b.Events):
		return fmt.Sprintf("%d events became %d", len(a.Events), len(b.Events))
	}
	for i := range a.Events {
		if a.Events[i] != b.Events[i] {
			return fmt.Sprintf("event %d (%s) is not the same bytes", i, m.Events[i].ID)
		}
	}
	return ""
}
