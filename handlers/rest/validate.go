package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"
)

// sensible refuses a request that is not what the document says. All that is wrong is said at once, and what
// was sent is never repeated. Names count exactly, letter for letter; unknown ones are refused.
func (o operation) sensible(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		faults, err := o.parameters(c.Request())
		if err != nil {
			return err
		}
		if o.body != nil {
			raw, tree, err := readBody(c, o.limit)
			if err != nil {
				return err
			}
			faults = append(faults, sorted(append(nuls(tree, ""), fit(o.body, tree, "")...))...)
			callOf(c.Request().Context()).body = raw
			c.Request().Body = validated{io.NopCloser(bytes.NewReader(raw)), tree}
		}
		if len(faults) > 0 {
			return invalid(faults...)
		}
		return next(c)
	}
}

// validated is a body with the value that was validated: what is generated binds that value, its names
// exactly.
type validated struct {
	io.ReadCloser
	tree any
}

// ValidatedValue is the value.
func (v validated) ValidatedValue() any { return v.tree }

// parameters compares the query and the headers with the document. What can't be read is an error.
func (o operation) parameters(r *http.Request) ([]wrong, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fail("malformed", "the query can't be read")
	}
	if len(o.query) == 0 && len(values) > 0 {
		return []wrong{{Pointer: "", Detail: "this request takes no parameters in its address"}}, nil
	}
	var faults []wrong
	for name, all := range values {
		i := slices.IndexFunc(o.query, func(p *openapi3.Parameter) bool { return p.Name == name })
		switch {
		case i < 0:
			faults = append(faults, wrong{Pointer: name, Detail: "unknown parameter"})
		case len(all) > 1:
			return nil, fail("malformed", name+" stands twice")
		case !utf8.ValidString(all[0]) || strings.ContainsRune(all[0], 0):
			return nil, fail("malformed", name+" is not UTF-8, or has a NUL character")
		default:
			faults = append(faults, fitText(o.query[i], all[0])...)
		}
	}
	for _, p := range o.query {
		if p.Required && !values.Has(p.Name) {
			faults = append(faults, wrong{Pointer: p.Name, Detail: "is missing"})
		}
	}
	for _, p := range o.headers {
		switch all := r.Header.Values(p.Name); {
		case len(all) > 1:
			faults = append(faults, wrong{Pointer: p.Name, Detail: "stands twice"})
		case len(all) == 1:
			faults = append(faults, fitText(p, all[0])...)
		}
	}
	return sorted(faults), nil
}

// fitText compares a parameter's text with its schema.
func fitText(p *openapi3.Parameter, text string) []wrong {
	schema := p.Schema.Value
	var value any = text
	say := func(detail string) []wrong { return []wrong{{Pointer: p.Name, Detail: detail}} }
	switch {
	case schema.Type.Is(openapi3.TypeInteger):
		n, err := strconv.ParseUint(text, 10, 63)
		if errors.Is(err, strconv.ErrRange) {
			return say("is too large")
		}
		if err != nil {
			return say("is not a whole number from 0 up")
		}
		value = float64(n)
	case schema.Type.Is(openapi3.TypeBoolean):
		if text != "true" && text != "false" {
			return say("is none of true, false")
		}
		value = text == "true"
	}
	return fit(schema, value, p.Name)
}

// mostValues is how many values a body may have. The smallest takes two bytes to send, and a hundred and more to hold.
const mostValues = 100_000

// values is how many values a JSON text has, roughly, without making any.
func values(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// readBody is a JSON body as it came, and as a value.
func readBody(c echo.Context, limit int64) (raw []byte, tree any, err error) {
	if kind, parameters, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); err != nil || kind != echo.MIMEApplicationJSON ||
		!strings.EqualFold(parameters["charset"], "") && !strings.EqualFold(parameters["charset"], "utf-8") {
		return nil, nil, fail("unsupported_media_type", "send application/json in UTF-8")
	}
	raw, err = io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, nil, fail("too_large", fmt.Sprintf("the body may have at most %d bytes", limit))
	case err != nil:
		return nil, nil, fail("malformed", "the body broke off")
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, nil, fail("malformed", "the body is empty")
	case !utf8.Valid(raw):
		return nil, nil, fail("malformed", "the body is not UTF-8")
	case values(raw) > mostValues:
		return nil, nil, fail("too_large", fmt.Sprintf("the body may have at most %d values", mostValues))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, nil, fail("malformed", "the body is not JSON: "+err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, fail("malformed", "something follows the JSON value")
	}
	return raw, tree, nil
}
