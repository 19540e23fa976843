package query

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Value is one value of an answer, as people and as programs read it.
type Value struct {
	kind uint32
	text string
	null bool
}

func newValue(kind uint32, raw []byte) Value {
	if raw == nil {
		return Value{kind: kind, null: true}
	}
	text := string(raw)
	if kind == pgtype.ByteaOID {
		// Much of what is stored as bytes is JSON, which nobody wants to read in hexadecimal.
		if b, err := hex.DecodeString(strings.TrimPrefix(text, `\x`)); err == nil && len(b) > 0 && printable(b) {
			text = string(b)
		}
	}
	return Value{kind: kind, text: text}
}

func printable(b []byte) bool {
	return utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) < 0
}

// widest is how many characters of a value a table shows.
const widest = 80

// String is how a table shows it: on one line, and not longer than a line.
func (v Value) String() string {
	if v.null {
		return "-"
	}
	text := strings.Join(strings.FieldsFunc(v.text, unicode.IsControl), " ")
	if runes := []rune(text); len(runes) > widest {
		return string(runes[:widest-1]) + "…"
	}
	return text
}

// MarshalJSON writes numbers and truths as such, JSON as it is, and all else as text.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.null:
		return []byte("null"), nil
	case v.kind == pgtype.BoolOID:
		return strconv.AppendBool(nil, v.text == "t"), nil
	case v.kind == pgtype.Int2OID, v.kind == pgtype.Int4OID, v.kind == pgtype.Int8OID, v.kind == pgtype.OIDOID:
		return []byte(v.text), nil
	case v.kind == pgtype.Float4OID, v.kind == pgtype.Float8OID, v.kind == pgtype.NumericOID:
		if f, err := strconv.ParseFloat(v.text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return []byte(v.text), nil
		}
	case (v.kind == pgtype.JSONOID || v.kind == pgtype.JSONBOID) && json.Valid([]byte(v.text)):
		return []byte(v.text), nil
	}
	return encode(v.text)
}

// Lines writes one object a line.
func (r Result) Lines(out io.Writer) error {
	for _, row := range r.Rows {
		line, err := Line(r.Columns, row)
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Line is a row as a line of JSON, its members in the order of the columns.
func Line(columns []Column, row []Value) ([]byte, error) {
	line := []byte{'{'}
	for i, value := range row {
		name, err1 := encode(columns[i].Name)
		text, err2 := encode(value)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(append(append(line, name...), ':'), text...)
	}
	return append(line, "}\n"...), nil
}

// encode is JSON without escaping what HTML would need escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
