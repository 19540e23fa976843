package output

import "encoding/json"

// scanner reads JSON byte by byte and says at once when a byte can't belong to it. It is as strict as
// RFC 8259, but takes control characters inside strings, which models write.
type scanner struct {
	open    []byte // '{' and '[', outermost first
	want    want
	literal []byte // of a number, true, false or null
	hex     int    // digits of \u to come
	key     bool   // the string is a key
}

type want uint8

const (
	wantKeyOrEnd want = iota
	wantKey
	wantColon
	wantValue
	wantValueOrEnd
	wantCommaOrEnd
	inString
	inEscape
	inLiteral
	ended
)

const maxDepth = 64

// begin starts with an object whose '{' has been read.
func (s *scanner) begin() {
	*s = scanner{open: append(s.open[:0], '{'), literal: s.literal[:0], want: wantKeyOrEnd}
}

// step takes the next byte and reports whether it belongs to the object.
func (s *scanner) step(c byte) bool {
	switch s.want {
	case inString:
		switch c {
		case '\\':
			s.want = inEscape
		case '"':
			s.closeString()
		}
		return true
	case inEscape:
		return s.escape(c)
	case inLiteral:
		if literalByte(c) {
			s.literal = append(s.literal, c)
			return len(s.literal) <= 64
		}
		if !json.Valid(s.literal) {
			return false
		}
		s.want = wantCommaOrEnd
		return s.between(c)
	case ended:
		return false
	default:
		return s.between(c)
	}
}

// between takes a byte that is in no string, number or word.
func (s *scanner) between(c byte) bool {
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return true
	}
	switch s.want {
	case wantKeyOrEnd, wantKey:
		if c == '}' && s.want == wantKeyOrEnd {
			return s.pop(c)
		}
		s.key, s.want = true, inString
		return c == '"'
	case wantColon:
		s.want = wantValue
		return c == ':'
	case wantValue, wantValueOrEnd:
		if c == ']' && s.want == wantValueOrEnd {
			return s.pop(c)
		}
		return s.value(c)
	default: // wantCommaOrEnd
		if c != ',' {
			return s.pop(c)
		}
		if s.want = wantValue; s.open[len(s.open)-1] == '{' {
			s.want = wantKey
		}
		return true
	}
}

func (s *scanner) escape(c byte) bool {
	if s.hex > 0 {
		if s.hex--; s.hex == 0 {
			s.want = inString
		}
		return hexDigit(c) >= 0
	}
	switch c {
	case 'u':
		s.hex = 4
		return true
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.want = inString
		return true
	default:
		return false
	}
}

// closeString is also called where somebody else has read a string's content.
func (s *scanner) closeString() {
	if s.want = wantCommaOrEnd; s.key {
		s.want = wantColon
	}
}

func (s *scanner) value(c byte) bool {
	switch {
	case c == '"':
		s.key, s.want = false, inString
	case c == '{':
		s.open, s.want = append(s.open, c), wantKeyOrEnd
	case c == '[':
		s.open, s.want = append(s.open, c), wantValueOrEnd
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		s.literal, s.want = append(s.literal[:0], c), inLiteral
	default:
		return false
	}
	return len(s.open) <= maxDepth
}

func (s *scanner) pop(c byte) bool {
	last := s.open[len(s.open)-1]
	if last == '{' && c != '}' || last == '[' && c != ']' {
		return false
	}
	s.open = s.open[:len(s.open)-1]
	if s.want = wantCommaOrEnd; len(s.open) == 0 {
		s.want = ended
	}
	return true
}

func literalByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == 'E' || c == '+' || c == '-' || c == '.'
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
