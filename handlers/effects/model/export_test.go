package model

import "github.com/cloudwego/eino/schema"

// Join is joiner, for tests: it puts calls together from their pieces, and counts how often a name became known.
func Join(pieces []schema.ToolCall) (calls []Call, names int) {
	var j joiner
	for _, piece := range pieces {
		if _, fresh := j.add(piece); fresh {
			names++
		}
	}
	return j.done(), names
}

// Reasoning is reasoning, for tests.
func Reasoning(raw string) string { return reasoning(raw) }
