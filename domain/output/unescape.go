package output

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unescaper decodes the inside of a JSON string while it arrives. What is no escape stays as it is.
type unescaper struct {
	esc  []byte // an escape that has not arrived whole, from its backslash
	high rune   // the first half of a surrogate pair
}

// step takes a byte and appends what can be said; it reports the closing quote.
func (u *unescaper) step(c byte, out []byte) ([]byte, bool) {
	if len(u.esc) == 0 {
		switch c {
		case '"':
			return u.flush(out), true
		case '\\':
			u.esc = append(u.esc, c)
			return out, false
		default:
			return append(u.lone(out), c), false
		}
	}
	if len(u.esc) == 1 {
		if c == 'u' {
			u.esc = append(u.esc, c)
			return out, false
		}
		u.esc = u.esc[:0]
		out = u.lone(out)
		if plain, ok := escapes(c); ok {
			return append(out, plain), false
		}
		return append(out, '\\', c), false
	}
	if hexDigit(c) < 0 {
		out = append(u.lone(out), u.esc...)
		u.esc = u.esc[:0]
		return u.step(c, out)
	}
	if u.esc = append(u.esc, c); len(u.esc) < 6 {
		return out, false
	}
	r := rune(0)
	for _, digit := range u.esc[2:] {
		r = r<<4 | rune(hexDigit(digit))
	}
	u.esc = u.esc[:0]
	if u.high != 0 {
		if pair := utf16.DecodeRune(u.high, r); pair != utf8.RuneError {
			u.high = 0
			return utf8.AppendRune(out, pair), false
		}
		out = u.lone(out)
	}
	if r >= 0xD800 && r < 0xDC00 {
		u.high = r
		return out, false
	}
	return utf8.AppendRune(out, r), false
}

// flush ends the string, whole or cut off: a half escape is no character and is dropped.
func (u *unescaper) flush(out []byte) []byte {
	u.esc = u.esc[:0]
	return u.lone(out)
}

// lone replaces the first half of a pair whose second half did not come.
func (u *unescaper) lone(out []byte) []byte {
	if u.high == 0 {
		return out
	}
	u.high = 0
	return utf8.AppendRune(out, utf8.RuneError)
}

func escapes(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	default:
		return 0, false
	}
}

// unquote decodes the inside of a JSON string that has arrived whole.
func unquote(inside string) string {
	var u unescaper
	var out []byte
	for i := range len(inside) {
		out, _ = u.step(inside[i], out)
	}
	return string(u.flush(out))
}
