package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// DecodeRecord reads a record of the log. The places are zero but for the events' indexes: see Locate.
// It answers ErrUndecodable for anything else, a later format included.
func DecodeRecord(value []byte) (Record, error) {
	var w wireRecord
	if err := wire.Unmarshal(value, &w); err != nil {
		return Record{}, fmt.Errorf("codec: decoding a record: %w: %w", ErrUndecodable, err)
	}
	if w.V != 1 {
		return Record{}, fmt.Errorf("codec: record of format %d: %w", w.V, ErrUndecodable)
	}
	switch w.Kind {
	case KindLead, KindClose:
		return Record{Lead: &Lead{Kind: w.Kind, Era: w.Era, Lead: w.Lead, Writer: w.Writer, At: w.At}}, nil
	case KindCommit:
		return Record{Commit: w.commit()}, nil
	default:
		return Record{}, fmt.Errorf("codec: record of kind %q: %w", w.Kind, ErrUndecodable)
	}
}

// DecodeCommit is DecodeRecord of what must be a commit.
func DecodeCommit(value []byte) (streams.Commit, error) {
	r, err := DecodeRecord(value)
	if err != nil {
		return streams.Commit{}, err
	}
	if r.Commit == nil {
		return streams.Commit{}, fmt.Errorf("codec: a %s where a commit should be: %w", r.Lead.Kind, ErrUndecodable)
	}
	return *r.Commit, nil
}

// Locate says where a commit, and so each of its events, lies.
func Locate(c *streams.Commit, partition int32, offset int64) {
	c.Place = streams.Place{Partition: partition, Offset: offset}
	for i := range c.Events {
		c.Events[i].Place = streams.Place{Partition: partition, Offset: offset, Index: i}
	}
}

func (w *wireRecord) commit() *streams.Commit {
	c := &streams.Commit{
		Era: w.Era, Lead: w.Lead, Writer: w.Writer, CommandOffset: w.CommandOffset,
		After: streams.CommandPlace{Era: int(w.After[0]), Offset: w.After[1]},
		Scope: domain.Scope(w.Scope), CommandID: w.CommandID, Fingerprint: w.Fingerprint, DecidedAt: w.DecidedAt,
		Actor: absent(w.Actor), CorrelationID: w.CorrelationID, CausationID: w.CausationID, Rejected: w.Rejected,
	}
	if len(w.Events) == 0 {
		return c
	}
	c.Events = make([]streams.Recorded, len(w.Events))
	for i := range w.Events {
		e := &w.Events[i]
		c.Events[i] = streams.Recorded{
			ID: e.ID, Scope: c.Scope, Stream: domain.Stream(e.Stream), Version: e.Version, Position: e.Position,
			Type: e.Type, Schema: e.Schema, At: c.DecidedAt, Actor: c.Actor, Data: absent(e.Data),
			Sealed: e.Sealed, Key: e.Key, SealDigest: e.SealDigest, Hash: e.Hash,
			CommandID: c.CommandID, CorrelationID: c.CorrelationID, CausationID: c.CausationID,
			Era: c.Era, Place: streams.Place{Index: i},
		}
	}
	return c
}

// absent undoes appendRaw, which writes null for nothing.
func absent(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}
