package domain

import (
	"fmt"
	"reflect"
)

// Kind ties a Go type to its wire name and schema number. It is written once, beside the type:
//
//	var Events = []domain.Kind{
//		domain.Named[MessagePosted]("thread.message_posted", domain.Was(fromV1)),
//	}
//
// The type is a struct. Its JSON form is the clear data; at most one field, tagged `json:"-" sealed:"true"`,
// holds the personal content, which is stored sealed.
type Kind struct {
	name   string
	typ    reflect.Type
	sealed int
	olds   []Upcast
	downs  []Upcast // as olds: from the next schema back; nil where nothing was promised
	levels []int    // as olds: since which format level the next schema may be written; 0: as the one before
	since  int
}

// Upcast turns the clear data of one schema into that of the next. It is pure.
type Upcast func(data []byte) ([]byte, error)

// KindOption changes a Kind under construction.
type KindOption func(*Kind)

// Was says that an older schema existed and how its data becomes the next one's. Oldest first.
func Was(up Upcast) KindOption { return Raised(0, up, nil) }

// Raised is Was for a schema that may be written only from a format level on, when every running process can read it; until
// then down turns what is written into the older one. Whoever reads either sees the same.
func Raised(level int, up, down Upcast) KindOption {
	return func(k *Kind) {
		k.olds, k.downs, k.levels = append(k.olds, up), append(k.downs, down), append(k.levels, level)
	}
}

// Since says that the kind itself may be written only from a format level on. A command that leads to it is refused before.
func Since(level int) KindOption { return func(k *Kind) { k.since = level } }

// Named ties T to a wire name. It panics on a T that is not a struct or has two sealed fields: a
// mistake of the program's text, found when it starts.
func Named[T any](name string, options ...KindOption) Kind {
	k := Kind{name: name, typ: reflect.TypeFor[T](), sealed: -1}
	if k.typ.Kind() != reflect.Struct {
		panic(fmt.Sprintf("domain: %s is named after %v, which is not a struct", name, k.typ))
	}
	for i := range k.typ.NumField() {
		if k.typ.Field(i).Tag.Get("sealed") != "true" {
			continue
		}
		if k.sealed >= 0 || k.typ.Field(i).Tag.Get("json") != "-" {
			panic(fmt.Sprintf("domain: %s must have one sealed field, with the tag json:\"-\"", name))
		}
		k.sealed = i
	}
	for _, option := range options {
		option(&k)
	}
	return k
}

// Name is the wire name, such as "thread.message_posted".
func (k Kind) Name() string { return k.name }

// Schema is the number of the schema that is written today; the first is 1.
func (k Kind) Schema() int { return len(k.olds) + 1 }

// Level is the format level since which today's schema may be written; the first is 1.
func (k Kind) Level() int { return k.levelOf(k.Schema()) }

// SchemaAt is the newest schema that may be written at a format level, or 0.
func (k Kind) SchemaAt(level int) int {
	for schema := k.Schema(); schema > 0; schema-- {
		if k.levelOf(schema) <= level {
			return schema
		}
	}
	return 0
}

func (k Kind) levelOf(schema int) int {
	for i := schema - 2; i >= 0; i-- {
		if k.levels[i] > 0 {
			return k.levels[i]
		}
	}
	return max(1, k.since)
}

// Downcasts are the steps back, the first from schema 2 to 1; nil where there is none.
func (k Kind) Downcasts() []Upcast { return k.downs }

// Type is the Go struct.
func (k Kind) Type() reflect.Type { return k.typ }

// SealedField is the index of the sealed field in Type, or -1.
func (k Kind) SealedField() int { return k.sealed }

// Upcasts are the steps from schema 1 to today's.
func (k Kind) Upcasts() []Upcast { return k.olds }
