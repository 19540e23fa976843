package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
)

// reply is an answer whose body is a view of this package: a run's record, a timeline's entries. Tests hold
// it against the document.
type reply struct {
	status int
	body   any
}

func (r reply) write(w http.ResponseWriter) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.body); err != nil {
		return fmt.Errorf("rest: encode an answer: %w", err)
	}
	w.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w.WriteHeader(r.status)
	_, err := w.Write(b.Bytes())
	return err
}

// The operations that answer so.

func (r reply) VisitChatResponse(w http.ResponseWriter) error             { return r.write(w) }
func (r reply) VisitRequestDataResponse(w http.ResponseWriter) error      { return r.write(w) }
func (r reply) VisitGetDataRequestResponse(w http.ResponseWriter) error   { return r.write(w) }
func (r reply) VisitListDataRequestsResponse(w http.ResponseWriter) error { return r.write(w) }
func (r reply) VisitRequestMutationResponse(w http.ResponseWriter) error  { return r.write(w) }
func (r reply) VisitGetMutationResponse(w http.ResponseWriter) error      { return r.write(w) }
func (r reply) VisitListMutationsResponse(w http.ResponseWriter) error    { return r.write(w) }
func (r reply) VisitCancelMutationResponse(w http.ResponseWriter) error   { return r.write(w) }
func (r reply) VisitGetLastEntryResponse(w http.ResponseWriter) error     { return r.write(w) }
func (r reply) VisitGetRunResponse(w http.ResponseWriter) error           { return r.write(w) }
func (r reply) VisitGetScopeResponse(w http.ResponseWriter) error         { return r.write(w) }
func (r reply) VisitGetTimelineResponse(w http.ResponseWriter) error      { return r.write(w) }
func (r reply) VisitListEventsResponse(w http.ResponseWriter) error       { return r.write(w) }
func (r reply) VisitListStreamEventsResponse(w http.ResponseWriter) error { return r.write(w) }
func (r reply) VisitListRunsResponse(w http.ResponseWriter) error         { return r.write(w) }
func (r reply) VisitListThreadRunsResponse(w http.ResponseWriter) error   { return r.write(w) }

// page is a part of a list whose elements are views of this package.
type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// next is the nextCursor of a page: null on the last, else with a link to the next.
func (c *call) next(cursor string) *string {
	if cursor == "" {
		return nil
	}
	asked := c.request().URL
	values := asked.Query()
	values.Set("cursor", cursor)
	c.header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, (&url.URL{Path: asked.Path, RawPath: asked.RawPath}).EscapedPath(), values.Encode()))
	return &cursor
}

// present is a list that is there, also where it is empty.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// some is a pointer to a value, nil where it is the zero one: what is absent is left out.
func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// or is what a pointer points to, or else the default.
func or[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
