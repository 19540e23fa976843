package codec

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/bytedance/sonic"
)

// wire is how everything is encoded: maps in order so that equal values are equal bytes, no HTML
// escaping, raw messages checked but carried byte for byte, invalid UTF-8 replaced as encoding/json
// does. Strings are copied: a remembered id must not keep the record that it came in.
var wire = sonic.Config{SortMapKeys: true, ValidateString: true, CopyString: true, CaseSensitive: true}.Froze()

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Most strings are ids, which need no escaping.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// appendMember appends ,"name":"value".
func appendMember(b []byte, name, value string) []byte {
	return appendString(appendName(b, name), value)
}

// appendOptional is appendMember unless value is empty.
func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendMember(b, name, value)
}

func appendInt(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(appendName(b, name), value, 10)
}

// appendBytes appends a member in base64 unless value is empty.
func appendBytes(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(appendName(b, name), '"')
	return append(base64.StdEncoding.AppendEncode(b, value), '"')
}

// appendRaw appends a member whose value is JSON already; nothing stands for null.
func appendRaw(b []byte, name string, value []byte) []byte {
	b = appendName(b, name)
	if len(value) == 0 {
		return append(b, "null"...)
	}
	return append(b, value...)
}

// appendPlace appends a member with [era,offset].
func appendPlace(b []byte, name string, era int, offset int64) []byte {
	b = append(appendName(b, name), '[')
	b = strconv.AppendInt(b, int64(era), 10)
	b = strconv.AppendInt(append(b, ','), offset, 10)
	return append(b, ']')
}

// appendName appends ,"name": (without the comma at an object's beginning). Names need no escaping.
func appendName(b []byte, name string) []byte {
	if len(b) > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, '"', ':')
}
