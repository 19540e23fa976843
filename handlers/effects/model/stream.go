package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// answer is a whole answer of a model.
type answer struct {
	Text   string
	Calls  []Call
	Finish string
	Input  int
	Output int
	Extra  map[string]string
}

// delta is a piece of an answer as it arrives.
type delta struct {
	Text, Reasoning string
	// Tool is a tool whose call has just begun, Call its place among the turn's calls.
	Tool string
	Call int
}

// stream asks the model and hands every piece to each as it comes, and tick's ticks to ticked, all from the
// caller's goroutine. An answer is whole only with a finish reason.
func stream(ctx context.Context, m model.BaseChatModel, messages []*schema.Message, options []model.Option, stall time.Duration, each func(delta), tick <-chan time.Time, ticked func()) (answer, *Failure) {
	ctx, h := listening(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chunks := receive(ctx, m, messages, options)
	a, err := collect(ctx, chunks, stall, each, tick, ticked)
	if err != nil {
		cancel(err)
		for range chunks { // until the receiver has stopped: what it heard is read below
		}
		return answer{}, classify(err, h)
	}
	return a, nil
}

// piece is a chunk of a stream, or what ended it.
type piece struct {
	message *schema.Message
	err     error
}

// receive reads the stream in a goroutine of its own, because reading can't be waited for together with
// anything else. The channel is closed when that goroutine has stopped.
func receive(ctx context.Context, m model.BaseChatModel, messages []*schema.Message, options []model.Option) <-chan piece {
	chunks := make(chan piece, 16)
	go func() {
		defer close(chunks)
		reader, err := m.Stream(ctx, messages, options...)
		if err != nil {
			chunks <- piece{err: err}
			return
		}
		defer reader.Close()
		for {
			message, err := reader.Recv()
			select {
			case chunks <- piece{message, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return chunks
}

func collect(ctx context.Context, chunks <-chan piece, stall time.Duration, each func(delta), tick <-chan time.Time, ticked func()) (answer, error) {
	var a answer
	var text strings.Builder
	var calls joiner
	quiet := time.NewTimer(stall)
	defer quiet.Stop()
	for {
		select {
		case p, ok := <-chunks:
			if !ok {
				return answer{}, context.Cause(ctx)
			}
			if errors.Is(p.err, io.EOF) {
				return whole(a, text.String(), calls.done())
			}
			if p.err != nil {
				return answer{}, p.err
			}
			quiet.Reset(stall)
			text.WriteString(p.message.Content)
			a.take(p.message)
			each(delta{Text: p.message.Content, Reasoning: reasoning(p.message.ReasoningContent)})
			for _, c := range p.message.ToolCalls {
				if at, fresh := calls.add(c); fresh {
					each(delta{Tool: c.Function.Name, Call: at})
				}
			}
		case <-tick:
			ticked()
		case <-quiet.C:
			return answer{}, errStalled
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
}

func (a *answer) take(m *schema.Message) {
	if note, ok := m.Extra["metadata"].(map[string]string); ok {
		a.Extra = note
	}
	if m.ResponseMeta == nil {
		return
	}
	if m.ResponseMeta.FinishReason != "" {
		a.Finish = finish(m.ResponseMeta.FinishReason)
	}
	if u := m.ResponseMeta.Usage; u != nil {
		a.Input, a.Output = u.PromptTokens, u.CompletionTokens
	}
}

// finish is a provider's finish reason if it is a word. It stands in clear data, which takes no sentences.
func finish(reason string) string {
	word := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if len(reason) > 64 || strings.ContainsFunc(reason, func(r rune) bool { return !word(r) }) {
		return "other"
	}
	return reason
}

// whole is the answer if the model said that it had finished. A clean end of the stream does not say that.
func whole(a answer, text string, calls []Call) (answer, error) {
	a.Text, a.Calls = text, calls
	switch {
	case a.Finish == "":
		return answer{}, errTruncated
	case text == "" && len(calls) == 0:
		return answer{}, errEmpty
	}
	return a, nil
}

// reasoning is a piece of reasoning as text: some servers' come as raw JSON strings, with the quotes.
func reasoning(raw string) string {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		var text string
		if json.Unmarshal([]byte(raw), &text) == nil {
			return text
		}
	}
	return raw
}
