package model_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

// A finish reason stands in clear data: a provider's word is kept, its sentences are not.
func TestFinishReasonsAreWords(t *testing.T) {
	for reason, want := range map[string]string{
		"length": "length", "content_filter": "content_filter", "eos-token2": "eos-token2",
		"the user said: buy milk": "other", "st\x00op": "other", strings.Repeat("x", 65): "other",
	} {
		r, _ := served(t, modeltest.Sequence("task_agent", modeltest.Reply{Deltas: []string{"Fine."}, Finish: reason}))
		run := r.Say("t", thread.Chat, "Say something")
		if run.End != transcript.Completed || len(run.Turns) != 1 {
			t.Fatalf("%q: run %+v", reason, run)
		}
		for _, e := range r.Events("t") {
			if turn, ok := e.(thread.TurnCompleted); ok && turn.FinishReason != want {
				t.Errorf("%q became %q, want %q", reason, turn.FinishReason, want)
			}
		}
	}
}
