package projections

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Column is a column of a table whose rows are R. Its values go into the database in two forms: as an array for unnest, and
// one after the other in the binary form of COPY.
type Column[R any] struct {
	name, sort string
	array      func([]*R) any
	encode     func([]byte, *R) []byte
}

// Stored are the Go types of columns; a nil string, nil bytes or a nil time are NULL.
type Stored interface {
	string | *string | []byte | int64 | int32 | bool | time.Time | *time.Time
}

// Col is a column of the SQL type that belongs to V: text, bytea, bigint, integer, boolean or timestamptz.
func Col[R any, V Stored](name string, get func(*R) V) Column[R] {
	return Column[R]{
		name: name, sort: sortOf[V](),
		array: func(rows []*R) any {
			all := make([]V, len(rows))
			for i, r := range rows {
				all[i] = get(r)
			}
			return all
		},
		encode: func(b []byte, r *R) []byte { return appendField(b, get(r)) },
	}
}

func sortOf[V Stored]() string {
	var zero V
	switch any(zero).(type) {
	case string, *string:
		return "text"
	case []byte:
		return "bytea"
	case int64:
		return "bigint"
	case int32:
		return "integer"
	case bool:
		return "boolean"
	default:
		return "timestamptz"
	}
}

// appendField appends a value as COPY's binary form has it: its length as four bytes and the value, or -1 for NULL
// (Postgres, "COPY", file formats).
func appendField[V Stored](b []byte, value V) []byte {
	switch v := any(value).(type) {
	case string:
		return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	case *string:
		if v == nil {
			return binary.BigEndian.AppendUint32(b, null)
		}
		return append(binary.BigEndian.AppendUint32(b, uint32(len(*v))), *v...)
	case []byte:
		if v == nil {
			return binary.BigEndian.AppendUint32(b, null)
		}
		return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	case int64:
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(v))
	case int32:
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 4), uint32(v))
	case bool:
		b = binary.BigEndian.AppendUint32(b, 1)
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case *time.Time:
		if v == nil {
			return binary.BigEndian.AppendUint32(b, null)
		}
		return appendField(b, *v)
	case time.Time:
		micros := v.Unix()*1_000_000 + int64(v.Nanosecond())/1000 - epoch
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(micros))
	default:
		panic(fmt.Sprintf("projections: a column of %T", value)) // Stored has no other
	}
}

const (
	null  = 1<<32 - 1
	epoch = 946_684_800_000_000 // 2000-01-01, from which Postgres counts microseconds
)

// copyHeader is what a binary COPY begins with, and copyTrailer what it ends with.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
)

// appendRow appends a row in the binary form of COPY.
func appendRow[R any](b []byte, columns []Column[R], r *R) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(columns)))
	for i := range columns {
		b = columns[i].encode(b, r)
	}
	return b
}
