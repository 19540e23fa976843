package codec

import (
	"encoding/json"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// The kinds of records on the log.
const (
	KindCommit = "commit"
	KindLead   = "lead"
	KindClose  = "close"
)

// Lead is a record by which a writer begins to lead a partition, or closes it for ever.
type Lead struct {
	Kind   string // KindLead or KindClose
	Era    int
	Lead   int64
	Writer string
	At     string
}

// Record is a record of the log: one of the two is set.
type Record struct {
	Lead   *Lead
	Commit *streams.Commit
}

type wireRecord struct {
	V             int               `json:"v"`
	Kind          string            `json:"kind"`
	Era           int               `json:"era"`
	Lead          int64             `json:"lead"`
	Writer        string            `json:"writer"`
	At            string            `json:"at"`
	CommandOffset int64             `json:"command_offset"`
	After         [2]int64          `json:"after"`
	Scope         string            `json:"scope"`
	CommandID     string            `json:"command_id"`
	Fingerprint   []byte            `json:"fingerprint"`
	DecidedAt     string            `json:"decided_at"`
	Actor         json.RawMessage   `json:"actor"`
	CorrelationID string            `json:"correlation_id"`
	CausationID   string            `json:"causation_id"`
	Rejected      *domain.Rejection `json:"rejected"`
	Events        []wireEvent       `json:"events"`
}

type wireEvent struct {
	ID         string          `json:"id"`
	Stream     string          `json:"stream"`
	Version    uint64          `json:"version"`
	Position   uint64          `json:"position"`
	Type       string          `json:"type"`
	Schema     int             `json:"schema"`
	Data       json.RawMessage `json:"data"`
	Sealed     []byte          `json:"sealed"`
	Key        int             `json:"key"`
	SealDigest []byte          `json:"seal_digest"`
	Hash       []byte          `json:"hash"`
}

// EncodeLead is a lead's or a close's record.
func EncodeLead(l Lead) ([]byte, error) {
	if l.Kind != KindLead && l.Kind != KindClose {
		return nil, fmt.Errorf("codec: a lead is %q or %q, not %q", KindLead, KindClose, l.Kind)
	}
	b := appendInt([]byte{'{'}, "v", 1)
	b = appendMember(b, "kind", l.Kind)
	b = appendInt(b, "era", int64(l.Era))
	b = appendInt(b, "lead", l.Lead)
	b = appendMember(b, "writer", l.Writer)
	b = appendMember(b, "at", l.At)
	return append(b, '}'), nil
}

// EncodeCommit is a commit's record. Actor and the events' data are carried byte for byte.
func EncodeCommit(c streams.Commit) ([]byte, error) {
	size := 512 + len(c.Actor)
	for i := range c.Events {
		size += 384 + len(c.Events[i].Data) + len(c.Events[i].Sealed)*4/3
	}
	b := make([]byte, 0, size)
	b = appendHead(b, c.Mark())
	b = appendOptional(b, "scope", string(c.Scope))
	b = appendOptional(b, "command_id", c.CommandID)
	b = appendBytes(b, "fingerprint", c.Fingerprint)
	b = appendMember(b, "decided_at", c.DecidedAt)
	b = appendRaw(b, "actor", c.Actor)
	b = appendOptional(b, "correlation_id", c.CorrelationID)
	b = appendOptional(b, "causation_id", c.CausationID)
	if c.Rejected != nil {
		if len(c.Events) > 0 {
			return nil, fmt.Errorf("codec: commit of command %s is a rejection with events", c.CommandID)
		}
		rejected, err := wire.Marshal(c.Rejected)
		if err != nil {
			return nil, fmt.Errorf("codec: encoding a rejection: %w", err)
		}
		return append(appendRaw(b, "rejected", rejected), '}'), nil
	}
	b = append(appendName(b, "events"), '[')
	for i := range c.Events {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEvent(b, &c.Events[i])
	}
	return append(b, ']', '}'), nil
}

func appendEvent(b []byte, r *streams.Recorded) []byte {
	b = append(b, '{')
	b = appendMember(b, "id", r.ID)
	b = appendMember(b, "stream", string(r.Stream))
	b = appendInt(b, "version", int64(r.Version))
	b = appendInt(b, "position", int64(r.Position))
	b = appendMember(b, "type", r.Type)
	b = appendInt(b, "schema", int64(r.Schema))
	b = appendRaw(b, "data", r.Data)
	if len(r.Sealed) > 0 {
		b = appendBytes(b, "sealed", r.Sealed)
		b = appendInt(b, "key", int64(r.Key))
		b = appendBytes(b, "seal_digest", r.SealDigest)
	}
	b = appendBytes(b, "hash", r.Hash)
	return append(b, '}')
}
