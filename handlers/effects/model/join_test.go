package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudwego/eino/schema"

	"github.com/cairnhq/cairn/handlers/effects/model"
)

// cutCalls makes pieces of calls, in the styles in which servers send them. Pieces of different calls mix
// where the style says which call they belong to.
func cutCalls(rng *rand.Rand, calls []model.Call, style string) []schema.ToolCall {
	queues := make([][]schema.ToolCall, len(calls))
	for i, c := range calls {
		index := new(i)
		switch style {
		case "one index":
			index = new(0)
		case "no index":
			index = nil
		}
		head := schema.ToolCall{Index: index, ID: c.ID, Function: schema.FunctionCall{Name: c.Name}}
		if style == "no ids" {
			head.ID = ""
		}
		queues[i] = append(queues[i], head)
		for rest := c.Arguments; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			part := schema.ToolCall{Index: index, Function: schema.FunctionCall{Arguments: rest[:n]}}
			if style == "ids on all" {
				part.ID = c.ID
			}
			queues[i], rest = append(queues[i], part), rest[n:]
		}
	}
	mixed := style == "standard" || style == "ids on all" || style == "no ids"
	var pieces []schema.ToolCall
	for len(queues) > 0 {
		at := 0
		if mixed {
			at = rng.IntN(len(queues))
		}
		pieces, queues[at] = append(pieces, queues[at][0]), queues[at][1:]
		if len(queues[at]) == 0 {
			queues = slices.Delete(queues, at, at+1)
		}
	}
	return pieces
}

func TestCallsAreTheSameHoweverTheyWereCut(t *testing.T) {
	calls := []model.Call{
		{ID: "a", Name: "create_task", Arguments: `{"title":"Ä \"quoted\" one"}`},
		{ID: "b", Name: "create_task", Arguments: `{"title":"two","priority":"low"}`},
		{ID: "c", Name: "list_tasks", Arguments: ``},
		{ID: "d", Name: "list_tasks", Arguments: `{}`},
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, style := range []string{"standard", "ids on all", "one index", "no index", "no ids"} {
		for range 200 {
			want := calls[:1+rng.IntN(len(calls))]
			got, names := model.Join(cutCalls(rng, want, style))
			if style == "no ids" {
				want = slices.Clone(want)
				for i := range want {
					want[i].ID = ""
				}
			}
			if !slices.Equal(got, want) || names != len(want) {
				t.Fatalf("seed %d, %s: got %+v, want %+v", seed, style, got, want)
			}
		}
	}
}

func TestReasoningComesWithoutItsQuotes(t *testing.T) {
	for raw, want := range map[string]string{`"a\nb"`: "a\nb", "plain": "plain", `"half`: `"half`, "": ""} {
		if got := model.Reasoning(raw); got != want {
			t.Errorf("%q became %q", raw, got)
		}
	}
}
