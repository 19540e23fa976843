package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
)

// samples adds an event with as little and one with as much as the type can say, in the form of files. What lies there
// stays as it is; where the type has grown since, another one is added.
func (e eventType) samples(root string, words *words, files map[string][]byte) error {
	folder := fmt.Sprintf("streams/samples/%s/v%d", e.Kind.Name(), e.Major)
	for _, sample := range []struct {
		name string
		full int
	}{{"minimal", 0}, {"full", 1}} {
		text, err := e.sample(words, sample.full)
		if err != nil {
			return err
		}
		for n := 1; ; n++ {
			path := folder + "/" + sample.name + ".json"
			if n > 1 {
				path = fmt.Sprintf("%s/%s-%d.json", folder, sample.name, n)
			}
			there, err := os.ReadFile(filepath.Join(root, path))
			if err != nil || bytes.Equal(there, text) {
				files[path] = text
				break
			}
			files[path] = there
		}
	}
	return nil
}

func (e eventType) sample(words *words, full int) ([]byte, error) {
	v := e.Kind.Fresh().Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case i == e.Kind.SealedField():
		case full > 0:
			fill(v.Field(i), name(f), words)
		case f.Type.Kind() == reflect.Slice && !strings.Contains(f.Tag.Get("json"), ",omit"):
			v.Field(i).Set(reflect.MakeSlice(f.Type, 0, 0)) // an empty list, as the deciders write it
		}
	}
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	event, err := feed.NewAs(e.recorded(full), data, e.Kind.Schema(), e.Major)
	if err != nil {
		return nil, err
	}
	raw, err := event.Structured()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// recorded is what the log says of a sample.
func (e eventType) recorded(full int) streams.Recorded {
	const id = "4f0c2a52-6a3e-5b1d-9c1f-0d7a3c2b1e10"
	actor := domain.Actor{Kind: domain.ActorUser}
	r := streams.Recorded{
		ID: "9b5a1a3e-0c55-5d0e-8f6b-6a2f6d1c7e01", Scope: domain.User(id), Stream: domain.NewStream(e.Aggregate, id), Version: 7, Position: 42,
		Type: e.Kind.Name(), Schema: e.Kind.Schema(), At: "2026-11-30T18:45:17.899000Z",
		CommandID: "1d7c9a70-2f0b-5a41-8f3b-5f2b7c0e9a11", CorrelationID: "1d7c9a70-2f0b-5a41-8f3b-5f2b7c0e9a11",
		Era: 1, Place: streams.Place{Partition: 3, Offset: 4711},
	}
	if full > 0 {
		actor = domain.Actor{Kind: domain.ActorWorker, ID: "effects", Device: uuidFor("device_id"), Agent: "task_agent", Run: uuidFor("run_id")}
		r.CausationID, r.Place.Index = "5c2f3f0e-7a7b-5c53-9a0e-3c1f2d4b6a12", 2
	}
	if e.Sealed {
		r.Sealed, r.SealDigest = make([]byte, 96), bytes.Repeat([]byte{7}, 32)
	}
	r.Actor, _ = json.Marshal(actor)
	return r
}

func name(f reflect.StructField) string {
	n, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return n
}

// uuidFor is an id that stays the same for a field's name.
func uuidFor(field string) string {
	return streams.CommandID("user-sample", field)
}

func fill(v reflect.Value, field string, words *words) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(2 * time.Second))
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 30, 18, 45, 17, 899_000_000, time.UTC)))
	case t.Kind() == reflect.String:
		v.SetString(textFor(t, field, words))
	case v.CanInt():
		v.SetInt(2)
	case v.CanUint():
		v.SetUint(2)
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), field, words)
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		fill(v.Index(0), field, words)
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		element := reflect.New(t.Elem()).Elem()
		fill(element, "value", words)
		v.SetMapIndex(reflect.ValueOf("key"), element)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			fill(v.Field(i), name(t.Field(i)), words)
		}
	}
}

func textFor(t reflect.Type, field string, words *words) string {
	if values := words.values[t.PkgPath()+"."+t.Name()]; len(values) > 0 {
		return fmt.Sprint(values[0])
	}
	switch {
	case field == "call_id":
		return uuidFor("run_id") + ".1.0"
	case field == "id", strings.HasSuffix(field, "_id"):
		return uuidFor(field)
	case field == "timezone":
		return "Europe/Berlin"
	default:
		return field
	}
}
