package model

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// most is how much text is gathered at most before it is published.
const most = 1 << 10

// formatter makes frames of text: domain/output's Home or Plain.
type formatter interface {
	Write(delta string) []output.Frame
	Close() []output.Frame
	Warnings() []string
}

// publisher sends what is ready of an attempt to whoever watches. Text that follows a pause goes out at
// once, text that follows other text closely is gathered: the first words are never late, and a fast model
// does not make a frame of every token. All of it is provisional; what is lost is committed later.
type publisher struct {
	ctx      context.Context //nolint:containedctx // it lives as long as one attempt
	live     streams.Live
	log      *slog.Logger
	format   formatter
	gather   time.Duration
	now      func() time.Time
	frame    streams.LiveFrame // who and where; N, Offset and Blocks count on
	text     strings.Builder
	thinking strings.Builder
	last     time.Time
	timer    *time.Timer
	failed   bool
}

func (p *publisher) delta(d delta) {
	if d.Reasoning != "" {
		p.thinking.WriteString(d.Reasoning)
	}
	if d.Text != "" {
		for _, f := range p.format.Write(d.Text) {
			p.add(f)
		}
	}
	if d.Tool != "" {
		p.tool(d)
	}
	if p.text.Len()+p.thinking.Len() > 0 {
		p.soon()
	}
}

func (p *publisher) add(f output.Frame) {
	if f.Block == "" {
		p.text.WriteString(f.Text)
		return
	}
	p.flush()
	p.send("block", f.Block, f.Data)
	p.frame.Blocks++
}

// soon publishes at once after a pause, and else when the gathering time is over.
func (p *publisher) soon() {
	since := p.now().Sub(p.last)
	if since >= p.gather || p.text.Len()+p.thinking.Len() >= most {
		p.flush()
		return
	}
	p.timer.Reset(p.gather - since)
}

// flush publishes what was gathered.
func (p *publisher) flush() {
	if p.thinking.Len() > 0 {
		p.send("reasoning", p.thinking.String(), nil)
		p.thinking.Reset()
	}
	if p.text.Len() > 0 {
		text := p.text.String()
		p.text.Reset()
		p.send("text", text, nil)
		p.frame.Offset += len(text)
	}
}

// end publishes what the formatter still held.
func (p *publisher) end() {
	for _, f := range p.format.Close() {
		p.add(f)
	}
	p.flush()
}

// tool says that a call has begun to arrive.
func (p *publisher) tool(d delta) {
	data, err := json.Marshal(map[string]string{"call_id": thread.CallID(p.frame.RunID, p.frame.Turn, d.Call), "tool": d.Tool})
	if err != nil {
		return
	}
	p.flush()
	p.send("tool", "", data)
}

func (p *publisher) send(kind, text string, data []byte) {
	p.frame.N++
	f := p.frame
	f.Kind, f.Text, f.Data = kind, text, data
	p.last = p.now()
	if err := p.live.Publish(p.ctx, f); err != nil && !p.failed {
		p.failed = true
		p.log.WarnContext(p.ctx, "provisional frames can't be published", "run", f.RunID, "error", err)
	}
}
