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
}

// Upcast turns the clear data of one schema into that of the next. It is pure.
type Upcast func(data []byte) ([]byte, error)

// KindOption changes a Kind under construction.
type KindOption func(*Kind)

// Was says that an older schema existed and how its data becomes the next one's. Oldest first.
func Was(up Upcast) KindOption { return func(k *Kind) { k.olds = append(k.olds, up) } }

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

// Type is the Go struct.
func (k Kind) Type() reflect.Type { return k.typ }

// SealedField is the index of the sealed field in Type, or -1.
func (k Kind) SealedField() int { return k.sealed }

// Upcasts are the steps from schema 1 to today's.
func (k Kind) Upcasts() []Upcast { return k.olds }
