package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/effectstest"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
)

// broken embeds nothing while it is down.
type broken struct{ down bool }

func (b *broken) Name() string { return "broken" }

func (b *broken) Embed(ctx context.Context, text string) ([]float32, error) {
	if b.down {
		return nil, errors.New("the endpoint is down")
	}
	return embed.Hashed{}.Embed(ctx, text)
}

func vectors(t *testing.T, r *effectstest.Ring, query string) int {
	t.Helper()
	v, err := embed.Hashed{}.Embed(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.Store.Execute(t.Context(), device.Call{Action: "vector_search", Table: "notes", Vector: v, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatal(err)
	}
	return len(found.Results)
}

func TestANoteIsIndexedByItsDevice(t *testing.T) {
	r := effectstest.New(t, model.Offline(), nil)
	run := r.Say("t", thread.Chat, "Create a note called Compost: layer green and brown waste")
	call := run.Turns[0].Calls[0]
	if len(call.Steps) != 3 || call.Steps[2].Then != "index_note" || call.Steps[3].Action != "vector_upsert" || call.NotIndexed {
		t.Fatalf("steps %+v", call.Steps)
	}
	if got := effectstest.Text(run); !strings.Contains(got, `Created the note "Compost"`) {
		t.Errorf("answered %q", got)
	}
	if n := vectors(t, r, "brown waste"); n != 1 {
		t.Errorf("%d vectors", n)
	}
}

func TestANoteThatCouldNotBeIndexedSaysSoAndIsIndexedLater(t *testing.T) {
	embedder := &broken{down: true}
	r := effectstest.New(t, model.Offline(), embedder)
	run := r.Post(thread.PostMessage{On: thread.On{Thread: "t"}, Content: thread.Content{Text: "Create a note called Compost: layer it"}})
	r.Until(func() bool { return r.Thread("t").Run(run).End != "" })
	got := r.Thread("t").Run(run)
	if text := effectstest.Text(got); !strings.Contains(text, "Created the note") || !strings.Contains(text, "could not be indexed") {
		t.Errorf("answered %q", text)
	}
	if len(r.Rows("notes")) != 1 || vectors(t, r, "layer") != 0 {
		t.Fatalf("notes %v", r.Rows("notes"))
	}
	embedder.down = false
	r.Turn()
	if vectors(t, r, "layer") != 1 {
		t.Errorf("not indexed later: %+v", r.Thread("t").Run(run).Turns[0].Calls[0].Steps)
	}
	if n := len(r.Rows("notes")); n != 1 {
		t.Errorf("%d notes", n)
	}
}

func TestASearchThatCannotBeEmbeddedIsAnErrorInWords(t *testing.T) {
	r := effectstest.New(t, model.Offline(), &broken{down: true})
	run := r.Say("t", thread.Chat, "Search my notes for compost")
	call := run.Turns[0].Calls[0]
	if call.Failure != thread.ServerError || !strings.Contains(effectstest.Text(run), "could not be embedded") {
		t.Errorf("call %+v, answered %q", call, effectstest.Text(run))
	}
}
