package output

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	maxWarnings = 32
	maxRescans  = 64
)

// Home reads a sequence of JSON objects with plain text between them.
// What is no object of a known type passes as text. White space between objects, and a Markdown fence
// around them, belong to neither.
//
// It is an automaton over bytes. Where it must read on to know what it has, it holds the bytes back and,
// if it was wrong, says the first of them and reads the others anew.
type Home struct {
	rows     Rows
	runes    runes
	out      frames
	warnings []string

	mode  mode
	gap   bool   // nothing was said since the start or the last object
	any   bool   // an object was seen
	line  bool   // only white space since the line began
	held  []byte // white space or a fence that is said only if text follows
	fence fence
	text  textObject

	// A candidate: what was read of it, and what is known of it.
	scan    scanner
	raw     []byte
	start   int    // of the string at depth 1 that is being read, in raw
	field   string // the key at depth 1 whose value is being read
	kind    string
	rescans int

	// A block with a mistake in it: where, and how far its end is.
	mistake int
	depth   int
	quoted  bool
	escaped bool
}

type mode uint8

const (
	outside   mode = iota
	fencing        // a run of backticks at the start of a line, and what may follow it
	candidate      // an object whose type is not known yet, or is no type of ours, or is text
	saying         // the content of a text object
	closing        // a text object after its content
	building       // a block
	skipping       // a block with a mistake in it
)

// textObject is what is known of the content of a text object.
type textObject struct {
	decode unescaper
	early  *string // a content that came before the type
	said   bool
	wrong  bool // a content that is no string
}

// NewHome is the formatter of home requests. Rows may be nil: then no reference is resolved.
func NewHome(rows func(entity string, ids []string) []json.RawMessage) *Home {
	return &Home{rows: rows, gap: true, line: true}
}

// Write takes the next piece of what the model writes and answers what can be shown.
func (h *Home) Write(delta string) []Frame {
	h.feed(h.runes.take(delta, false))
	return h.out.take()
}

// Close ends the stream and answers what was held back. An object that was cut off is dropped.
func (h *Home) Close() []Frame {
	h.feed(h.runes.take("", true))
	for h.mode != outside {
		h.cutOff()
	}
	if !h.any {
		h.release()
	}
	return h.out.take()
}

// Warnings say what was dropped and why, without the model's words.
func (h *Home) Warnings() []string { return slices.Clone(h.warnings) }

func (h *Home) warn(format string, args ...any) {
	if len(h.warnings) < maxWarnings {
		h.warnings = append(h.warnings, fmt.Sprintf(format, args...))
	}
}

func (h *Home) feed(in string) {
	for i := range len(in) {
		if again := h.step(in[i]); again != "" {
			h.feed(again)
		}
	}
}

// step takes a byte and answers what must be read again, which includes the byte if it was not used.
func (h *Home) step(c byte) (again string) {
	switch h.mode {
	case fencing:
		return h.stepFence(c)
	case candidate:
		return h.stepCandidate(c)
	case saying:
		h.stepContent(c)
		return ""
	case closing:
		return h.stepClosing(c)
	case building:
		return h.stepBlock(c)
	case skipping:
		h.stepMistake(c)
		return ""
	default:
		h.stepOutside(c)
		return ""
	}
}

func (h *Home) stepOutside(c byte) {
	switch {
	case c == '{':
		h.begin()
	case c == '`' && h.line:
		h.mode, h.fence.text, h.fence.part = fencing, append(h.fence.text[:0], c), ticks
	case h.gap && space(c):
		h.held = append(h.held, c)
		h.line = h.line || c == '\n'
	default:
		h.sayByte(c)
	}
}

func one(c byte) string { return string([]byte{c}) }

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// say says text that lies outside of objects, after what was held back.
func (h *Home) say(text []byte) {
	h.release()
	for _, c := range text {
		h.sayByte(c)
	}
}

func (h *Home) sayByte(c byte) {
	h.release()
	h.out.text.WriteByte(c)
	h.gap = false
	h.line = c == '\n' || h.line && space(c)
}

// release says what was held back: it was text.
func (h *Home) release() {
	h.out.text.Write(h.held)
	h.held = h.held[:0]
	h.fence.said()
}

// cutOff ends whatever was being read when the stream ended.
func (h *Home) cutOff() {
	switch h.mode {
	case fencing:
		h.endFence()
	case saying:
		h.out.text.Write(h.text.decode.flush(nil))
		h.warn("a text object was cut off")
		h.object()
	case skipping:
		h.warn("a %s block was dropped: it is not valid JSON", h.kind)
		rest := string(h.raw[h.mistake:])
		h.object()
		if h.rescans++; h.rescans > maxRescans {
			h.say([]byte(rest))
		} else {
			h.feed(rest)
		}
	case candidate:
		if h.kind == "text" || h.kind == "" && ours(string(h.raw)) {
			h.warn("an object was cut off")
			h.object()
			return
		}
		h.feed(h.noObject(""))
	default:
		h.warn("an object was cut off")
		h.object()
	}
}

// ours reports whether a cut-off candidate was about to name a type of ours.
func ours(raw string) bool {
	compact := strings.Map(func(r rune) rune {
		if r < 128 && space(byte(r)) {
			return -1
		}
		return r
	}, raw)
	for _, kind := range []string{"text", "chart", "table", "timeline", "entity_ref"} {
		if len(compact) > 1 && strings.HasPrefix(`{"type":"`+kind+`"`, compact) {
			return true
		}
	}
	return false
}
