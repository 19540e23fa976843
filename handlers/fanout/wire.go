package fanout

import (
	"encoding/hex"
	"strconv"
)

// AppendJSON appends the members of a `live` frame from "run_id" on, without braces. What `data` is follows from the kind:
// the text, the block and its type, or what the worker said of a tool.
func (f *Frame) AppendJSON(b []byte) []byte {
	b = quote(append(b, `"run_id":`...), []byte(f.RunID))
	b = strconv.AppendInt(append(b, `,"turn":`...), int64(f.Turn), 10)
	b = strconv.AppendInt(append(b, `,"attempt":`...), int64(f.Attempt), 10)
	b = strconv.AppendInt(append(b, `,"n":`...), int64(f.N), 10)
	b = quote(append(b, `,"kind":`...), []byte(f.Kind))
	switch f.Kind {
	case "text", "block":
		b = strconv.AppendInt(append(b, `,"offset":`...), int64(f.Offset), 10)
		b = strconv.AppendInt(append(b, `,"blocks":`...), int64(f.Blocks), 10)
	}
	switch {
	case f.Kind == "block":
		b = quote(append(b, `,"data":{"block_type":`...), []byte(f.Text))
		return append(orNull(append(b, `,"data":`...), f.Data), '}')
	case f.Text != "":
		return append(quote(append(b, `,"data":{"text":`...), []byte(f.Text)), '}')
	case len(f.Data) > 0:
		return append(append(b, `,"data":`...), f.Data...)
	default:
		return append(b, `,"data":{}`...)
	}
}

// AppendJSON appends the members of a `reset` frame from "reason" on, without braces.
func (r *Reset) AppendJSON(b []byte) []byte {
	b = quote(append(b, `"reason":`...), []byte(r.Reason))
	b = strconv.AppendUint(append(b, `,"head":`...), r.Head, 10)
	if len(r.HeadHash) > 0 {
		b = append(hex.AppendEncode(append(b, `,"head_hash":"`...), r.HeadHash), '"')
	}
	return b
}
