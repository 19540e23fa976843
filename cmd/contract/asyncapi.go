package main

import (
	"bytes"
	_ "embed" // the document's text around the types
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
)

//go:embed asyncapi.tmpl
var asyncText string

// channel is a feed and the events it carries.
type channel struct {
	Name   string
	Events []eventType
}

// asyncAPI is the AsyncAPI document of the feeds.
func asyncAPI(types []eventType) ([]byte, error) {
	var channels []channel
	for _, name := range feed.Names() {
		c := channel{Name: name}
		for _, e := range types {
			of, err := feed.Of(domain.NewStream(e.Aggregate, "x"))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Kind.Name(), err)
			}
			if of == name {
				c.Events = append(c.Events, e)
			}
		}
		channels = append(channels, c)
	}
	text, err := template.New("asyncapi").Funcs(template.FuncMap{"quote": quote, "id": id}).Parse(asyncText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = text.Execute(&b, map[string]any{
		"Channels": channels, "Types": types, "Embedded": kafka.EmbeddedTopics(), "Kafka": kafka.KafkaTopics(),
	})
	return b.Bytes(), err
}

// quote is text as YAML, which has JSON's strings.
func quote(text string) (string, error) {
	raw, err := json.Marshal(text)
	return string(raw), err
}

// id is a name that AsyncAPI allows as a key.
func id(name string) string { return strings.NewReplacer(".", "_").Replace(name) }
