// Package feed is an event in the form in which anybody may read it: a CloudEvent 1.0 with the clear data and
// what the log says of it, never the sealed bytes. It knows which feed an event belongs to; it publishes nothing.
package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/schemas"
)

// ContentType is that of an event's data.
const ContentType = "application/json"

// ErrNoFeed is an event that belongs to no feed: this release can't publish it.
var ErrNoFeed = errors.New("no feed")

// Names are the feeds, in the order of their names.
func Names() []string {
	return []string{"accounts", "connections", "documents", "memory", "threads", "workspaces"}
}

// Of is the feed of a stream.
func Of(stream domain.Stream) (string, error) {
	switch kind := stream.Kind(); kind {
	case "account", "organisation", "device":
		return "accounts", nil
	case "connection":
		return "connections", nil
	case "document":
		return "documents", nil
	case "memory":
		return "memory", nil
	case "thread", "conversation":
		return "threads", nil
	case "workspace", "agent", "playbook":
		return "workspaces", nil
	default:
		return "", fmt.Errorf("%w for streams of kind %q", ErrNoFeed, kind)
	}
}

// Attribute is a CloudEvents attribute: its name without a prefix, and its value as text.
type Attribute struct{ Name, Value string }

// Event is an event as it is published.
type Event struct {
	// Attributes are in the order in which they are documented.
	Attributes []Attribute
	// Data is the clear data, never empty: a record without a value would be a tombstone.
	Data json.RawMessage
}

// New is the published form of an event whose data has the shape of a schema number: r.Data itself, or what it was
// raised to.
func New(r streams.Recorded, data json.RawMessage, schema int) (Event, error) {
	return NewAs(r, data, schema, schemas.Newest(r.Type))
}

// NewAs is New in a major version of the type.
func NewAs(r streams.Recorded, data json.RawMessage, schema, major int) (Event, error) {
	var actor domain.Actor
	if len(r.Actor) > 0 {
		if err := json.Unmarshal(r.Actor, &actor); err != nil {
			return Event{}, fmt.Errorf("actor of event %s: %w", r.ID, err)
		}
	}
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		data = json.RawMessage("{}")
	}
	e := Event{Data: data}
	e.add("specversion", "1.0")
	e.add("id", r.ID)
	e.add("source", Source(r.Scope))
	e.add("type", r.Type+".v"+strconv.Itoa(major))
	e.add("subject", string(r.Stream))
	e.add("time", r.At)
	e.add("dataschema", schemas.URI(r.Type, major))
	e.add("partitionkey", string(r.Scope))
	e.add("sequence", fmt.Sprintf("%020d", r.Version))
	e.number("streamversion", int64(r.Version))
	e.number("position", int64(r.Position))
	e.number("schemaversion", int64(schema))
	e.add("actor", actorText(actor))
	e.add("device", actor.Device)
	e.add("agent", actor.Agent)
	e.add("run", run(data, actor))
	e.add("correlationid", r.CorrelationID)
	e.add("causationid", r.CausationID)
	e.add("commandid", r.CommandID)
	if len(r.Sealed) > 0 {
		e.number("sealedbytes", int64(len(r.Sealed)))
		e.add("sealdigest", base64.StdEncoding.EncodeToString(r.SealDigest))
	}
	e.number("logera", int64(r.Era))
	e.number("logpartition", int64(r.Place.Partition))
	e.number("logoffset", r.Place.Offset)
	e.number("logindex", int64(r.Place.Index))
	return e, nil
}

// Source is the CloudEvents source of a scope's events.
func Source(scope domain.Scope) string { return "/scopes/" + string(scope) }

// Attribute is the value of an attribute, or "".
func (e Event) Attribute(name string) string {
	for _, a := range e.Attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// add leaves an attribute without a value out, as CloudEvents wants it.
func (e *Event) add(name, value string) {
	if value != "" {
		e.Attributes = append(e.Attributes, Attribute{name, value})
	}
}

func (e *Event) number(name string, value int64) { e.add(name, strconv.FormatInt(value, 10)) }

// actorText is "user:8f3c…", or the kind alone.
func actorText(a domain.Actor) string {
	if a.ID == "" {
		return string(a.Kind)
	}
	return string(a.Kind) + ":" + a.ID
}

// run is the run that an event is about, else the one on whose behalf it happened.
func run(data json.RawMessage, actor domain.Actor) string {
	var names struct {
		RunID string `json:"run_id"`
	}
	if json.Unmarshal(data, &names) == nil && names.RunID != "" {
		return names.RunID
	}
	return actor.Run
}
