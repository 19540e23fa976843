package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cloudwego/eino/schema"
)

// joiner puts tool calls together from the pieces in which they arrive. A piece belongs to the call with
// its id; without an id, to the newest call with its index; without either, to the newest call. A new id
// begins a new call even where the index is used already: some servers count every call as 0.
type joiner struct {
	calls []*joined
}

type joined struct {
	index int // -1: none was sent
	id    string
	name  string
	args  strings.Builder
}

// Call is a tool call in the model's words. Its arguments are complete only when the turn has ended.
type Call struct{ ID, Name, Arguments string }

// add takes a piece. It answers the call's place and whether its name has just become known.
func (j *joiner) add(piece schema.ToolCall) (at int, fresh bool) {
	at = j.find(piece)
	if at < 0 {
		index := -1
		if piece.Index != nil {
			index = *piece.Index
		}
		j.calls = append(j.calls, &joined{index: index, id: piece.ID})
		at = len(j.calls) - 1
	}
	call := j.calls[at]
	if call.id == "" {
		call.id = piece.ID
	}
	if call.name == "" && piece.Function.Name != "" {
		call.name, fresh = piece.Function.Name, true
	}
	call.args.WriteString(piece.Function.Arguments)
	return at, fresh
}

func (j *joiner) find(piece schema.ToolCall) int {
	newest := func(is func(*joined) bool) int {
		for i := len(j.calls) - 1; i >= 0; i-- {
			if is(j.calls[i]) {
				return i
			}
		}
		return -1
	}
	sameIndex := func(c *joined) bool { return piece.Index == nil || c.index == *piece.Index }
	switch {
	case piece.ID != "":
		if at := newest(func(c *joined) bool { return c.id == piece.ID && sameIndex(c) }); at >= 0 {
			return at
		}
		// The id may come after the first pieces of its call.
		return newest(func(c *joined) bool { return c.id == "" && piece.Index != nil && c.index == *piece.Index })
	default:
		at := newest(sameIndex)
		if at >= 0 && piece.Function.Name != "" && j.calls[at].whole() {
			return -1 // a server that sends neither ids nor a second index: a name begins a call
		}
		return at
	}
}

// whole reports whether the call has a name and complete arguments.
func (c *joined) whole() bool {
	return c.name != "" && json.Valid([]byte(c.args.String()))
}

// done are the calls in the order of their indexes, or as they came where those say nothing.
func (j *joiner) done() []Call {
	ordered := slices.Clone(j.calls)
	if distinct(ordered) {
		slices.SortStableFunc(ordered, func(a, b *joined) int { return a.index - b.index })
	}
	calls := make([]Call, len(ordered))
	for i, c := range ordered {
		calls[i] = Call{ID: c.id, Name: c.name, Arguments: c.args.String()}
	}
	return calls
}

func distinct(calls []*joined) bool {
	seen := map[int]bool{}
	for _, c := range calls {
		if c.index < 0 || seen[c.index] {
			return false
		}
		seen[c.index] = true
	}
	return true
}
