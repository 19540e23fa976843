package live

import "encoding/binary"

// guard watches a client's frames go by (RFC 6455, section 5.2) and removes a message that is over the
// limit, however it is cut, without keeping it. It begins after the handshake: the server has read that.
type guard struct {
	limit     int64
	oversized func(size int64) // called from the reader

	header  []byte // of the frame that is arriving, while it is incomplete
	payload int64  // bytes of the current frame that are still to come
	drop    bool   // the current frame's bytes are removed
	size    int64  // of the current message so far
	over    bool   // the current message is over the limit
	passing bool   // the reader above was given the beginning of the current message

	passed    int   // messages begun towards the reader above
	delivered int   // messages that the reader above has had
	cut       []int // those of them that lack their end, by number
}

const (
	opContinue  = 0x0
	opControl   = 0x8 // this one and those above it
	finBit      = 0x80
	maskBit     = 0x80
	frameLength = 1 << 40 // a longer one never ends
)

// emptyEnd is an empty, final continuation: it ends a message whose end was removed.
func emptyEnd() []byte { return []byte{finBit | opContinue, maskBit, 0, 0, 0, 0} }

// filter appends to out what is left of p.
func (g *guard) filter(out, p []byte) []byte {
	for len(p) > 0 {
		if g.payload > 0 {
			step := min(g.payload, int64(len(p)))
			if !g.drop {
				out = append(out, p[:step]...)
			}
			g.payload -= step
			p = p[step:]
			continue
		}
		g.header = append(g.header, p[0])
		p = p[1:]
		if len(g.header) == headerLength(g.header) {
			out = append(out, g.begin()...)
			g.header = g.header[:0]
		}
	}
	return out
}

// begin looks at a complete header and answers what the reader above gets in its place.
func (g *guard) begin() []byte {
	final, op := g.header[0]&finBit != 0, g.header[0]&0x0f
	g.payload, g.drop = payloadLength(g.header), false
	if op >= opControl {
		return g.header
	}
	if op != opContinue {
		g.size, g.over, g.passing = 0, false, false
	}
	g.size += g.payload
	g.over = g.over || g.size > g.limit
	if !g.over {
		if !g.passing {
			g.passing = true
			g.passed++
		}
		return g.header
	}
	g.drop = true
	if !final {
		return nil
	}
	g.oversized(g.size)
	if !g.passing {
		return nil
	}
	g.cut = append(g.cut, g.passed)
	return emptyEnd()
}

// whole counts a message that the reader above was given, and says whether its end is there.
func (g *guard) whole() bool {
	g.delivered++
	if len(g.cut) == 0 || g.cut[0] != g.delivered {
		return true
	}
	g.cut = g.cut[1:]
	return false
}

func headerLength(h []byte) int {
	if len(h) < 2 {
		return 2
	}
	n := 2
	switch h[1] &^ maskBit {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if h[1]&maskBit != 0 {
		n += 4
	}
	return n
}

func payloadLength(h []byte) int64 {
	switch n := h[1] &^ maskBit; n {
	case 126:
		return int64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		return int64(min(binary.BigEndian.Uint64(h[2:]), frameLength))
	default:
		return int64(n)
	}
}
