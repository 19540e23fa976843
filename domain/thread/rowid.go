package thread

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsRowID reports whether a text can be the id of a row on a device: 1 to 200 bytes without spaces or control
// characters. Such ids stand in the clear data of events, where a text of the user's may not get by this way.
func IsRowID(id string) bool {
	return id != "" && len(id) <= 200 && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}
