package output

// fence is a Markdown fence: a line that begins with three or more backticks. One around objects is
// dropped, one around anything else is text.
type fence struct {
	text   []byte // what was read of it
	part   part
	inside inside
	opens  bool // the candidate that is being read follows text's fence
}

type part uint8

const (
	ticks part = iota
	language
	blank
)

type inside uint8

const (
	noFence      inside = iota
	objectsFence        // its opening was dropped, so its end will be
	textFence           // its opening was said, so its end will be
)

// entered says that the object which a fence was held back for is ours.
func (f *fence) entered() {
	if f.opens {
		f.inside, f.opens = objectsFence, false
	}
}

// said says that it was none of ours.
func (f *fence) said() {
	if f.opens {
		f.inside, f.opens = textFence, false
	}
}

func (h *Home) stepFence(c byte) string {
	f := &h.fence
	switch {
	case f.part == ticks && c == '`':
	case f.part == ticks && len(f.text) < 3, f.inside != noFence:
		h.endFence()
		return one(c)
	case c == '{':
		h.held = append(h.held, f.text...)
		f.opens = true
		h.begin()
		return ""
	case space(c):
		f.part = blank
	case f.part != blank && letter(c) && len(f.text) < 32:
		f.part = language
	default:
		h.endFence()
		return one(c)
	}
	f.text = append(f.text, c)
	return ""
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '+'
}

// endFence decides what the backticks were: the end of a fence, or text.
func (h *Home) endFence() {
	f := &h.fence
	h.mode = outside
	switch {
	case len(f.text) < 3:
	case f.inside == objectsFence:
		f.inside = noFence
		h.object()
		return
	case f.inside == textFence:
		f.inside = noFence
	default:
		f.inside = textFence
	}
	h.say(f.text)
}
