// Package survey reads a whole log as any reader does and says what is in it: how far each scope got, which accounts it
// has, what it says was erased, and where it is not what a writer may write. It keeps a hash per stream in memory and
// nothing of the events; it changes nothing.
package survey

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// maxDefects bounds what is kept of a log that is damaged throughout.
const maxDefects = 20

// Log is what was seen so far of a log, all partitions of it, each from its first record on and in order.
type Log struct {
	schema *codec.Schema
	voided map[streams.Place]bool

	at      map[int32]streams.Checkpoint
	scopes  map[domain.Scope]uint64
	streams map[streams.StreamKey]head
	facts   vault.Facts

	// Records, Commits, Rejections and Events are how many were seen; of commits and rejections those that count.
	Records, Commits, Rejections, Events int64
	// Defects say in words where the log is wrong; of many the first.
	Defects []string
}

type head struct {
	version uint64
	hash    []byte
}

// New is a survey that has seen nothing. Voided are the records that count without their events.
func New(schema *codec.Schema, voided []vault.Void) *Log {
	l := &Log{
		schema: schema, voided: map[streams.Place]bool{}, at: map[int32]streams.Checkpoint{},
		scopes: map[domain.Scope]uint64{}, streams: map[streams.StreamKey]head{},
		facts: vault.Facts{Accounts: map[string]vault.AccountFact{}},
	}
	for _, v := range voided {
		l.voided[streams.Place{Partition: v.Partition, Offset: v.Offset}] = true
	}
	return l
}

// At is where the survey stands in a partition.
func (l *Log) At(partition int32) streams.Checkpoint {
	if c, ok := l.at[partition]; ok {
		return c
	}
	return streams.Start()
}

// Scopes is how many scopes have events.
func (l *Log) Scopes() int { return len(l.scopes) }

// Facts are what the vault must agree with, for a log that is written in an era.
func (l *Log) Facts(era int) vault.Facts {
	facts := l.facts
	facts.Era, facts.Ends = era, map[int32]int64{}
	for partition, at := range l.at {
		facts.Ends[partition] = at.Next
	}
	return facts
}

// Accounts and Erased are how many accounts were registered, and how many scopes erased.
func (l *Log) Accounts() int { return len(l.facts.Accounts) }

// Erased see Accounts.
func (l *Log) Erased() int { return len(l.facts.Erased) }

// Add takes the next record of its partition and answers its commit, or nil for one that does not count or is no commit.
func (l *Log) Add(r *kgo.Record) *streams.Commit {
	l.Records++
	at := l.At(r.Partition)
	if at.Next != r.Offset {
		l.defect(r, "the record before it has offset %d", at.Next-1)
	}
	at.Next = r.Offset + 1
	mark, err := kafka.MarkOf(r.Headers)
	counts := false
	if err == nil {
		at.Acceptance, counts = at.Acceptance.Accept(mark)
	}
	l.at[r.Partition] = at
	if !counts || mark.Sort != streams.SortCommit {
		return nil
	}
	if l.voided[streams.Place{Partition: r.Partition, Offset: r.Offset}] {
		l.Commits++
		return kafka.VoidedCommit(r, mark)
	}
	commit, err := codec.DecodeCommit(r.Value)
	switch {
	case err != nil:
		l.defect(r, "%v", err)
		return nil
	case commit.Mark() != mark:
		l.defect(r, "body and headers disagree")
		return nil
	}
	codec.Locate(&commit, r.Partition, r.Offset)
	l.Commits++
	if commit.Rejected != nil {
		l.Rejections++
	}
	for _, e := range commit.Events {
		l.event(r, e)
	}
	return &commit
}

func (l *Log) event(r *kgo.Record, e streams.Recorded) {
	l.Events++
	if last := l.scopes[e.Scope]; e.Position != last+1 {
		l.defect(r, "an event of %s has position %d after %d", e.Scope, e.Position, last)
	}
	l.scopes[e.Scope] = e.Position
	key := streams.StreamKey{Scope: e.Scope, Stream: e.Stream}
	before, ok := l.streams[key]
	if !ok {
		before.hash = codec.Genesis(e.Stream)
	}
	if e.Version != before.version+1 {
		l.defect(r, "an event of %s has version %d after %d", e.Stream, e.Version, before.version)
	}
	if !bytes.Equal(codec.Chain(before.hash, e), e.Hash) {
		l.defect(r, "the hash of %s version %d does not follow from the one before", e.Stream, e.Version)
	}
	l.streams[key] = head{version: e.Version, hash: e.Hash}
	if e.Stream.Kind() == "account" {
		l.account(r, e)
	}
}

// account keeps what concerns the vault.
func (l *Log) account(r *kgo.Record, e streams.Recorded) {
	value, err := l.schema.Decode(e)
	if err != nil {
		l.defect(r, "%v", err)
		return
	}
	user := e.Stream.ID()
	switch fact := value.(type) {
	case account.Registered:
		l.facts.Accounts[user] = vault.AccountFact{Tier: fact.Tier}
	case account.TierChanged:
		l.facts.Accounts[user] = vault.AccountFact{Tier: fact.To, Position: e.Position}
	case account.Erased:
		l.facts.Erased = append(l.facts.Erased, e.Scope)
	}
}

func (l *Log) defect(r *kgo.Record, format string, args ...any) {
	if len(l.Defects) < maxDefects {
		l.Defects = append(l.Defects, fmt.Sprintf("partition %d offset %d: %s", r.Partition, r.Offset, fmt.Sprintf(format, args...)))
	}
}
