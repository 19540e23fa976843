// Package domain is the vocabulary of Cairn's pure core: scopes, streams, events and their wire names,
// deciders, rejections, and what an event asks of the world. It holds no clock, no randomness, no
// context and no I/O; a test parses the sources and fails on any of them.
package domain

import "strings"

// Scope says who owns data: one user ("user-…") or one organisation ("org-…"). It is the unit of
// ordering, encryption and access.
type Scope string

// Valid reports whether s has a known prefix and an id of at most 120 of the characters a-z, 0-9, '-' and '_'.
func (s Scope) Valid() bool {
	for _, prefix := range []string{"user-", "org-"} {
		if id, ok := strings.CutPrefix(string(s), prefix); ok {
			return validID(id)
		}
	}
	return false
}

// User is the scope of one user.
func User(id string) Scope { return Scope("user-" + id) }

// Stream is the history of one aggregate inside one scope, such as "thread-4f0c…". What stands before
// the first '-' is the aggregate's kind.
type Stream string

// NewStream names the stream of the aggregate kind with that id.
func NewStream(kind, id string) Stream { return Stream(kind + "-" + id) }

// Kind is the aggregate's kind: what stands before the first '-'.
func (s Stream) Kind() string {
	kind, _, _ := strings.Cut(string(s), "-")
	return kind
}

// ID is what follows the kind.
func (s Stream) ID() string {
	_, id, _ := strings.Cut(string(s), "-")
	return id
}

// Valid reports whether s has a kind of lower-case letters and an id like a scope's.
func (s Stream) Valid() bool {
	kind, id, ok := strings.Cut(string(s), "-")
	if !ok || kind == "" {
		return false
	}
	for _, r := range kind {
		if r < 'a' || r > 'z' {
			return false
		}
	}
	return validID(id)
}

func validID(id string) bool {
	if id == "" || len(id) > 120 {
		return false
	}
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
		default:
			return false
		}
	}
	return true
}

// Actor is who wanted a command. It holds ids only, never personal data.
type Actor struct {
	Kind ActorKind `json:"kind"`
	ID   string    `json:"id,omitempty"`
	// Device is the device a user acted from, if any.
	Device string `json:"device,omitempty"`
	// Agent and Run say on whose behalf a worker acts.
	Agent string `json:"agent,omitempty"`
	Run   string `json:"run,omitempty"`
}

// ActorKind is the sort of an Actor.
type ActorKind string

// The kinds of actors.
const (
	ActorUser   ActorKind = "user"
	ActorAgent  ActorKind = "agent"
	ActorDevice ActorKind = "device"
	ActorWorker ActorKind = "worker"
	ActorTimer  ActorKind = "timer"
	ActorPolicy ActorKind = "policy"
	ActorSystem ActorKind = "system"
)
