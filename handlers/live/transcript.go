package live

import (
	"strings"

	"github.com/cairnhq/cairn/domain/output"
)

// transcript is what was sent of a turn: pieces of text and blocks, neighbouring text joined.
type transcript struct {
	pieces []piece
	bytes  int // of text
	blocks int
}

// piece is text, or a block of a type. The content of a block does not matter: its place does.
type piece struct {
	block string
	text  *strings.Builder
}

func (t *transcript) empty() bool { return len(t.pieces) == 0 }

func (t *transcript) add(f output.Frame) {
	if f.Block != "" {
		t.blocks++
		t.pieces = append(t.pieces, piece{block: f.Block})
		return
	}
	if f.Text == "" {
		return
	}
	t.bytes += len(f.Text)
	if n := len(t.pieces); n == 0 || t.pieces[n-1].block != "" {
		t.pieces = append(t.pieces, piece{text: new(strings.Builder)})
	}
	t.pieces[len(t.pieces)-1].text.WriteString(f.Text)
}

// rest is what whole has beyond what was sent, and whether whole begins with what was sent at all.
func (t *transcript) rest(whole []output.Frame) ([]output.Frame, bool) {
	var all transcript
	for _, f := range whole {
		all.add(f)
	}
	if len(all.pieces) < len(t.pieces) {
		return nil, false
	}
	for i, sent := range t.pieces {
		if !sent.begins(all.pieces[i], i == len(t.pieces)-1) {
			return nil, false
		}
	}
	return skip(whole, t.bytes, t.blocks), true
}

// begins says whether p is the other piece, or, as the last one sent, its beginning.
func (p piece) begins(other piece, last bool) bool {
	switch {
	case p.block != "" || other.block != "":
		return p.block == other.block
	case last:
		return strings.HasPrefix(other.text.String(), p.text.String())
	default:
		return other.text.String() == p.text.String()
	}
}

// skip leaves out that many bytes of text and blocks, which stand in front.
func skip(frames []output.Frame, bytes, blocks int) []output.Frame {
	var rest []output.Frame
	for _, f := range frames {
		switch {
		case f.Block != "" && blocks > 0:
			blocks--
		case f.Block != "":
			rest = append(rest, f)
		default:
			n := min(bytes, len(f.Text))
			bytes -= n
			if f.Text = f.Text[n:]; f.Text != "" {
				rest = append(rest, f)
			}
		}
	}
	return rest
}
