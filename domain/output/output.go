// Package output turns what a model writes into what a client shows: pieces of text, and blocks. It
// reads a token stream cut at any byte, and makes the same of it however it was cut. It sends nothing.
package output

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Frame is a piece of text, or a block.
type Frame struct {
	Block string // chart, entity_ref, table or timeline; empty: Text
	Text  string
	Data  json.RawMessage
}

// frames collects; neighbouring texts become one.
type frames struct {
	done []Frame
	text strings.Builder
}

func (f *frames) show(b Frame)        { f.flush(); f.done = append(f.done, b) }
func (f *frames) take() (out []Frame) { f.flush(); out, f.done = f.done, nil; return out }

func (f *frames) flush() {
	if f.text.Len() > 0 {
		f.done = append(f.done, Frame{Text: f.text.String()})
		f.text.Reset()
	}
}

// runes holds back a character that has not arrived whole, and replaces bytes that are none by U+FFFD.
type runes struct{ rest string }

// take is the valid text so far, at the end of the stream all of it.
func (r *runes) take(delta string, end bool) string {
	in := r.rest + delta
	r.rest = ""
	if utf8.ValidString(in) {
		return in
	}
	var out strings.Builder
	for len(in) > 0 {
		if !end && !utf8.FullRuneInString(in) {
			r.rest = in
			break
		}
		c, size := utf8.DecodeRuneInString(in)
		out.WriteRune(c)
		in = in[size:]
	}
	return out.String()
}

// Plain passes text on as it is.
type Plain struct{ runes runes }

// NewPlain is the formatter of chats and floating requests.
func NewPlain() *Plain { return &Plain{} }

// Write takes the next piece of what the model writes and answers what can be shown.
func (p *Plain) Write(delta string) []Frame { return text(p.runes.take(delta, false)) }

// Close ends the stream and answers what was held back.
func (p *Plain) Close() []Frame { return text(p.runes.take("", true)) }

// Warnings is empty: plain text can't be wrong.
func (p *Plain) Warnings() []string { return nil }

func text(s string) []Frame {
	if s == "" {
		return nil
	}
	return []Frame{{Text: s}}
}
