package codec

import (
	"bytes"
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

// Remark is a commit's record under another mark: what stands behind the mark is carried byte for byte, whether this
// release knows it or not. It refuses a value that does not begin with the mark it is said to have.
func Remark(value []byte, was, is streams.Mark) ([]byte, error) {
	rest, ok := bytes.CutPrefix(value, appendHead(nil, was))
	if !ok || was.Sort != streams.SortCommit || is.Sort != streams.SortCommit {
		return nil, fmt.Errorf("codec: a commit does not begin with its mark: %w", ErrUndecodable)
	}
	return append(appendHead(make([]byte, 0, len(value)+32), is), rest...), nil
}

// appendHead appends what a commit's record begins with.
func appendHead(b []byte, m streams.Mark) []byte {
	b = appendInt(append(b, '{'), "v", 1)
	b = appendMember(b, "kind", KindCommit)
	b = appendInt(b, "era", int64(m.Era))
	b = appendInt(b, "lead", m.Lead)
	b = appendMember(b, "writer", m.Writer)
	b = appendInt(b, "command_offset", m.CommandOffset)
	return appendPlace(b, "after", m.After.Era, m.After.Offset)
}
