package rest_test

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/rest/contract"
)

// document is openapi.yaml, to hold real answers against.
type document struct{ *openapi3.T }

func readDocument(t *testing.T) document {
	t.Helper()
	spec, err := contract.GetSpec()
	check(t, err)
	return document{spec}
}

// operation finds what the document says of a request, nil where it says nothing.
func (d document) operation(method, path string) (template string, found *openapi3.Operation) {
	path, _, _ = strings.Cut(path, "?")
	asked := strings.Split(path, "/")
	for _, template := range slices.Sorted(maps.Keys(d.Paths.Map())) { // "{" sorts behind letters: exact ones come first
		said := strings.Split(template, "/")
		if !slices.EqualFunc(said, asked, func(s, a string) bool { return s == a || strings.HasPrefix(s, "{") && a != "" }) {
			continue
		}
		if found := d.Paths.Value(template).GetOperation(method); found != nil {
			return template, found
		}
	}
	return "", nil
}

// holds says where an answer is not what the document says, or says more than it.
func (d document) holds(method, path string, a *answer) (faults []string) {
	_, op := d.operation(method, path)
	if op == nil && method == http.MethodOptions {
		return nil // the router and CORS answer these
	}
	if op == nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			faults = append(faults, "it is not in the document")
		}
		return faults
	}
	response := op.Responses.Status(a.status)
	if response == nil {
		response = op.Responses.Default()
	}
	if response == nil {
		return []string{"the status is not in the document"}
	}
	for name, header := range response.Value.Headers {
		text := a.header.Get(name)
		if text == "" && (name == "Position" && method == http.MethodGet || name == "Retry-After" || name == "ETag" && a.status == http.StatusNotModified) {
			faults = append(faults, "no "+name)
		}
		if text != "" && header.Value.Schema.Value.Type.Is(openapi3.TypeInteger) && strings.Trim(text, "0123456789") != "" {
			faults = append(faults, name+" is no number: "+text)
		}
	}
	if len(response.Value.Content) == 0 {
		if len(a.raw) > 0 {
			faults = append(faults, "a body, but the document has none")
		}
		return faults
	}
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	media := response.Value.Content[kind]
	if err != nil || media == nil {
		return append(faults, "a body of another type than the document says: "+a.header.Get("Content-Type"))
	}
	if !strings.HasSuffix(kind, "json") {
		return faults
	}
	var value any
	if err := json.Unmarshal(a.raw, &value); err != nil {
		return append(faults, err.Error())
	}
	if err := media.Schema.Value.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsResponse()); err != nil {
		faults = append(faults, err.Error())
	}
	return append(faults, undocumented(media.Schema.Value, value, "")...)
}

// undocumented are the fields of an answer that the document does not tell.
func undocumented(schema *openapi3.Schema, value any, at string) (faults []string) {
	for _, one := range schema.OneOf {
		if one.Value.VisitJSON(value) == nil {
			return undocumented(one.Value, value, at)
		}
	}
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			if schema.Items != nil {
				faults = append(faults, undocumented(schema.Items.Value, element, at+"/*")...)
			}
		}
	case map[string]any:
		properties := map[string]*openapi3.Schema{}
		for _, part := range append(slices.Clone(schema.AllOf), schema.NewRef()) {
			for name, p := range part.Value.Properties {
				properties[name] = p.Value
			}
		}
		if len(properties) == 0 {
			return nil // anything
		}
		for name, field := range v {
			if p, ok := properties[name]; ok {
				faults = append(faults, undocumented(p, field, at+"/"+name)...)
			} else {
				faults = append(faults, "the document does not tell of "+at+"/"+name)
			}
		}
	}
	return faults
}

func TestEveryRouteIsInTheDocumentAndTheReverse(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	d := readDocument(t)
	var served, told []string
	for _, route := range r.router.Routes() {
		if route.Method != echo.RouteNotFound {
			served = append(served, route.Method+" "+route.Path)
		}
	}
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			told = append(told, method+" "+strings.NewReplacer("{", ":", "}", "").Replace(path))
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s has no id, no summary or not one tag", method, path)
			}
			if op.RequestBody != nil {
				for kind, media := range op.RequestBody.Value.Content {
					if has := media.Schema.Value.AdditionalProperties.Has; has == nil || *has {
						t.Errorf("%s %s: a body of %s may have unknown fields", method, path, kind)
					}
				}
			}
		}
	}
	slices.Sort(served)
	slices.Sort(told)
	if !slices.Equal(served, told) {
		t.Errorf("served:\n%s\nin the document:\n%s", strings.Join(served, "\n"), strings.Join(told, "\n"))
	}
	if err := d.Validate(t.Context()); err != nil {
		t.Errorf("the document is not OpenAPI 3.1: %v", err)
	}
	if u, err := url.Parse(d.Servers[0].URL); err != nil || u.Path != "/" {
		t.Errorf("servers %v", d.Servers)
	}
}
