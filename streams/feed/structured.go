package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// numeric reports whether the structured form writes an attribute as a JSON number. Those always fit into the 32
// bits of CloudEvents' Integer; the others (offsets, versions, positions) need not, and stay text.
func numeric(name string) bool {
	switch name {
	case "schemaversion", "sealedbytes", "logera", "logpartition", "logindex":
		return true
	default:
		return false
	}
}

// Structured is the event as one JSON object, CloudEvents' structured form, for files and webhooks.
func (e Event) Structured() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, a := range e.Attributes {
		if err := member(&b, a); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&b, "%q:%q,%q:", "datacontenttype", ContentType, "data")
	if err := json.Compact(&b, e.Data); err != nil {
		return nil, fmt.Errorf("data of event %s: %w", e.Attribute("id"), err)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func member(b *bytes.Buffer, a Attribute) error {
	fmt.Fprintf(b, "%q:", a.Name)
	if numeric(a.Name) {
		n, err := strconv.ParseInt(a.Value, 10, 32)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", a.Name, err)
		}
		fmt.Fprintf(b, "%d,", n)
		return nil
	}
	text, err := json.Marshal(a.Value)
	if err != nil {
		return fmt.Errorf("attribute %s: %w", a.Name, err)
	}
	b.Write(text)
	b.WriteByte(',')
	return nil
}
