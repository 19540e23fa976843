// Package codec turns commands, events and commits into bytes and back: wire names and upcasters,
// sealing, digests and the hash chain of DESIGN section 3, and the lock file of every stored shape. It
// neither reads nor writes a log, and keeps no keys.
package codec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/klauspost/compress/zstd"

	"github.com/cairnhq/cairn/domain"
)

// What cannot be read. Errors of the keys (streams.ErrKeysUnreachable and its like) pass as they are.
var (
	// ErrUnknownType is a wire name or schema number that this release does not know. It is never guessed.
	ErrUnknownType = errors.New("unknown type")
	// ErrUndecodable is bytes that will never be readable, whoever tries again.
	ErrUndecodable = errors.New("undecodable")
	// ErrTampered is content that does not have the digest that the log gives it.
	ErrTampered = errors.New("the content does not match its digest")
)

// Schema knows every kind of the aggregates it was made of. It is safe for concurrent use.
type Schema struct {
	aggregates map[string]domain.Aggregate
	events     table
	commands   table
	pack       *zstd.Encoder
	unpack     *zstd.Decoder
	level      int // what may be written; 0: everything
}

// table finds kinds by wire name and by Go type.
type table struct {
	byName map[string]entry
	byType map[reflect.Type]entry
}

// entry is a kind and the aggregate it belongs to.
type entry struct {
	domain.Kind
	aggregate string
}

// New makes a Schema. It refuses two aggregates of one kind, a wire name that stands twice, and a Go type with two names.
func New(aggregates ...domain.Aggregate) (*Schema, error) {
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstd.MinWindowSize<<7))
	if err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxContent))
	if err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	// The packer makes its channels at first use; made here they belong to nobody's bubble of virtual time.
	pack.EncodeAll([]byte{0}, nil)
	s := &Schema{
		aggregates: make(map[string]domain.Aggregate, len(aggregates)),
		events:     newTable(), commands: newTable(),
		pack: pack, unpack: unpack,
	}
	var wrong []error
	for _, a := range aggregates {
		if _, twice := s.aggregates[a.Kind]; twice {
			wrong = append(wrong, fmt.Errorf("codec: two aggregates are called %q", a.Kind))
		}
		s.aggregates[a.Kind] = a
		wrong = append(wrong, s.events.add(a.Kind, a.Events), s.commands.add(a.Kind, a.Commands))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return s, nil
}

// Aggregate is the aggregate whose streams begin with kind.
func (s *Schema) Aggregate(kind string) (domain.Aggregate, bool) {
	a, ok := s.aggregates[kind]
	return a, ok
}

// Knows reports whether an event has this wire name.
func (s *Schema) Knows(event string) bool {
	_, ok := s.events.byName[event]
	return ok
}

func newTable() table {
	return table{byName: map[string]entry{}, byType: map[reflect.Type]entry{}}
}

func (t table) add(aggregate string, kinds []domain.Kind) error {
	var wrong []error
	for _, k := range kinds {
		if _, twice := t.byName[k.Name()]; twice {
			wrong = append(wrong, fmt.Errorf("codec: the name %q stands twice", k.Name()))
		}
		if other, twice := t.byType[k.Type()]; twice {
			wrong = append(wrong, fmt.Errorf("codec: %v is both %q and %q", k.Type(), other.Name(), k.Name()))
		}
		t.byName[k.Name()] = entry{k, aggregate}
		t.byType[k.Type()] = entry{k, aggregate}
	}
	return errors.Join(wrong...)
}

// split encodes v: its clear data, and its content where its kind has one.
func split(e entry, v any) (data, content []byte, err error) {
	if data, err = wire.Marshal(v); err != nil {
		return nil, nil, fmt.Errorf("codec: encoding %s: %w", e.Name(), err)
	}
	if i := e.SealedField(); i >= 0 {
		if content, err = wire.Marshal(reflect.ValueOf(v).Field(i).Interface()); err != nil {
			return nil, nil, fmt.Errorf("codec: encoding the content of %s: %w", e.Name(), err)
		}
	}
	return data, content, nil
}

// raised is clear data of a schema in today's.
func raised(e entry, schema int, data []byte) ([]byte, error) {
	if schema < 1 || schema > e.Schema() {
		return nil, fmt.Errorf("codec: %s has schema %d, newest known is %d: %w", e.Name(), schema, e.Schema(), ErrUnknownType)
	}
	for i, up := range e.Upcasts()[schema-1:] {
		next, err := up(data)
		if err != nil {
			return nil, fmt.Errorf("codec: raising %s from schema %d: %w: %w", e.Name(), schema+i, ErrUndecodable, err)
		}
		data = next
	}
	return data, nil
}

// fresh decodes clear data of a schema into a new struct of today's.
func fresh(e entry, schema int, data []byte) (reflect.Value, error) {
	data, err := raised(e, schema, data)
	if err != nil {
		return reflect.Value{}, err
	}
	v := e.Fresh()
	if err := wire.Unmarshal(data, v.Interface()); err != nil {
		return reflect.Value{}, fmt.Errorf("codec: decoding %s: %w: %w", e.Name(), ErrUndecodable, err)
	}
	return v, nil
}

// fill decodes content into the sealed field of v, a pointer that fresh made.
func fill(e entry, v reflect.Value, content []byte) error {
	field := v.Elem().Field(e.SealedField())
	if err := wire.Unmarshal(content, field.Addr().Interface()); err != nil {
		field.SetZero()
		return fmt.Errorf("codec: decoding the content of %s: %w: %w", e.Name(), ErrUndecodable, err)
	}
	return nil
}
