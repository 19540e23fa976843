package rest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
)

// query is a request's query: only known names, none twice.
type query struct {
	values map[string]string
	errs   []wrong
}

// parameters reads the query; min_position is known everywhere.
func parameters(c echo.Context, known ...string) (*query, error) {
	q := &query{values: map[string]string{}}
	all, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, fail("malformed", "the query can't be read")
	}
	for name, values := range all {
		switch {
		case name != "min_position" && !slices.Contains(known, name):
			q.errs = append(q.errs, wrong{Pointer: name, Detail: "unknown parameter"})
		case len(values) > 1:
			return nil, fail("malformed", name+" stands twice")
		case !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0):
			return nil, fail("malformed", name+" is not UTF-8, or has a NUL character")
		default:
			q.values[name] = values[0]
		}
	}
	slices.SortFunc(q.errs, func(a, b wrong) int { return strings.Compare(a.Pointer, b.Pointer) })
	return q, nil
}

// number is a whole number from 0 up; fallback where it is absent.
func (q *query) number(name string, fallback uint64) uint64 {
	text, ok := q.values[name]
	if !ok {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		detail := fmt.Sprintf("%q is not a whole number from 0 up", text)
		if errors.Is(err, strconv.ErrRange) {
			detail = fmt.Sprintf("%s is too large", text)
		}
		q.errs = append(q.errs, wrong{Pointer: name, Detail: detail})
	}
	return n
}

// limit is how many rows at most.
func (q *query) limit(fallback, most uint64) int {
	n := q.number("limit", fallback)
	if n < 1 || n > most {
		if len(q.errs) == 0 {
			q.errs = append(q.errs, wrong{Pointer: "limit", Detail: fmt.Sprintf("is between 1 and %d", most)})
		}
		return 1
	}
	return int(n)
}

// choice is one of several words, the first where it is absent.
func (q *query) choice(name string, words ...string) string {
	text, ok := q.values[name]
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, text) {
		q.errs = append(q.errs, wrong{Pointer: name, Detail: fmt.Sprintf("%q is none of %s", text, strings.Join(words, ", "))})
	}
	return text
}

func (q *query) has(name string) bool { _, ok := q.values[name]; return ok }

func (q *query) wrong(name, detail string) {
	q.errs = append(q.errs, wrong{Pointer: name, Detail: detail})
}

// err is everything that was wrong.
func (q *query) err() error {
	if len(q.errs) == 0 {
		return nil
	}
	return invalid(q.errs...)
}

// param is a path parameter as it was meant. The router takes the path as it was written where the two differ.
func param(c echo.Context, name string) string {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// id is a path parameter that names something of that kind. What can't be a name is not found.
func id(c echo.Context, name string) (string, error) {
	value := param(c, name)
	if !domain.NewStream("x", value).Valid() {
		return "", fail("not_found", "there is nothing with that name that belongs to you")
	}
	return value, nil
}

// single reads a request for one thing: its id in the path, and no parameters but the position to wait for.
func single(c echo.Context, what string) (*query, string, error) {
	q, err := parameters(c)
	if err != nil {
		return nil, "", err
	}
	if err := q.err(); err != nil {
		return nil, "", err
	}
	name, err := id(c, what)
	return q, name, err
}
