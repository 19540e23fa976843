package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// Body limits in bytes. A message of 1 MiB may be six times as long when JSON escapes it.
const (
	smallBody = 64 << 10
	chatLimit = 8 << 20
)

// read decodes a JSON body into v, a pointer to a struct, and answers the body as it came. Names count
// exactly, letter for letter; a name that v does not have is refused, and so are NUL characters, which
// Postgres can't store. All that is wrong is said at once.
func read(c echo.Context, limit int64, v any) ([]byte, error) {
	if kind, parameters, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); err != nil || kind != echo.MIMEApplicationJSON ||
		!strings.EqualFold(parameters["charset"], "") && !strings.EqualFold(parameters["charset"], "utf-8") {
		return nil, fail("unsupported_media_type", "send application/json in UTF-8")
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, fail("too_large", fmt.Sprintf("the body may have at most %d bytes", limit))
	case err != nil:
		return nil, fail("malformed", "the body broke off")
	case len(bytes.TrimSpace(body)) == 0:
		return nil, fail("malformed", "the body is empty")
	case !utf8.Valid(body):
		return nil, fail("malformed", "the body is not UTF-8")
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fail("malformed", "the body is not JSON: "+err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fail("malformed", "something follows the JSON value")
	}
	if errs := check(tree, reflect.TypeOf(v).Elem(), ""); len(errs) > 0 {
		return nil, invalid(errs...)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return nil, invalid(wrong{Pointer: "", Detail: "a value has another type than expected"})
	}
	return body, nil
}

// check compares a JSON value with a Go type, and names everything that does not fit. Null fits only a
// pointer, which then says that the value is absent.
func check(value any, t reflect.Type, at string) []wrong {
	if t.Kind() == reflect.Pointer {
		if value == nil {
			return nil
		}
		t = t.Elem()
	}
	expected := func(what string) []wrong {
		return []wrong{{Pointer: at, Detail: fmt.Sprintf("expected %s, got %s", what, named(value))}}
	}
	switch t.Kind() {
	case reflect.Struct:
		object, ok := value.(map[string]any)
		if !ok {
			return expected("an object")
		}
		return checkFields(object, t, at)
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return expected("a list")
		}
		var errs []wrong
		for i, element := range list {
			errs = append(errs, check(element, t.Elem(), at+"/"+strconv.Itoa(i))...)
		}
		return errs
	case reflect.String:
		text, ok := value.(string)
		if !ok {
			return expected("a text")
		}
		if strings.ContainsRune(text, 0) {
			return []wrong{{Pointer: at, Detail: "has a NUL character"}}
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return expected("true or false")
		}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		number, ok := value.(json.Number)
		if !ok {
			return expected("a number")
		}
		if _, err := number.Int64(); err != nil {
			return expected("a whole number")
		}
	default: // bodies have fields of no other kind; any value fits json.RawMessage
	}
	return nil
}

func checkFields(object map[string]any, t reflect.Type, at string) []wrong {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = t.Field(i).Type
	}
	var errs []wrong
	for _, name := range slices.Sorted(maps.Keys(object)) {
		pointer := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		field, ok := fields[name]
		if !ok {
			errs = append(errs, wrong{Pointer: pointer, Detail: "unknown field"})
			continue
		}
		errs = append(errs, check(object[name], field, pointer)...)
	}
	return errs
}

func named(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}
