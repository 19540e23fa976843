package rest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/rest/contract"
)

// The document says with these who is counted for an operation, and how large its body may be.
const (
	counted   = "x-counted" // sessions: by address; commands: by account
	bodyLimit = "x-body-limit"
)

// smallBody is how large a body may be, in bytes, where the document does not say.
const smallBody = 64 << 10

// operation is one operation of openapi.yaml: what a request for it may look like, and who may send it.
type operation struct {
	method, path string
	open         bool // without a token
	tickets      bool // with a ticket, too
	streams      bool // it may be followed as Server-Sent Events
	pages        bool // it is a page where that is not asked for
	counted      string
	query        []*openapi3.Parameter
	headers      []*openapi3.Parameter
	body         *openapi3.Schema // nil: there is none
	limit        int64            // of the body, in bytes
}

// operations are those of the document, by their ids.
func operations(document *openapi3.T) (map[string]operation, error) {
	all := map[string]operation{}
	for path, item := range document.Paths.Map() {
		for method, found := range item.Operations() {
			o := operation{method: method, path: path, open: found.Security != nil && len(*found.Security) == 0, limit: smallBody}
			o.counted, _ = found.Extensions[counted].(string)
			if limit, ok := found.Extensions[bodyLimit].(float64); ok {
				o.limit = int64(limit)
			}
			if method == http.MethodGet {
				ok := found.Responses.Status(http.StatusOK)
				o.streams = ok != nil && ok.Value.Content[eventStream] != nil
				o.pages = ok != nil && ok.Value.Content[echo.MIMEApplicationJSON] != nil
			}
			if found.Security != nil {
				for _, by := range *found.Security {
					if scheme := document.Components.SecuritySchemes[ticketParameter]; by[ticketParameter] != nil && scheme != nil {
						o.tickets = true
						o.query = append(o.query, &openapi3.Parameter{Name: ticketParameter, In: openapi3.ParameterInQuery, Schema: openapi3.NewStringSchema().NewRef()})
					}
				}
			}
			for _, p := range found.Parameters {
				switch p.Value.In {
				case openapi3.ParameterInQuery:
					o.query = append(o.query, p.Value)
				case openapi3.ParameterInHeader:
					o.headers = append(o.headers, p.Value)
				}
			}
			if found.RequestBody != nil {
				media := found.RequestBody.Value.Content.Get(echo.MIMEApplicationJSON)
				if media == nil {
					return nil, fmt.Errorf("rest: openapi.yaml: %s %s takes a body that is not JSON", method, path)
				}
				o.body = media.Schema.Value
			}
			all[found.OperationID] = o
		}
	}
	return all, nil
}

// routes registers every operation of the document, with what stands before it. Middleware stands at each
// route, not at groups: a group answers 404 where a method is missing.
func (s *server) routes(e *echo.Echo) error {
	document, err := contract.GetSpec()
	if err != nil {
		return fmt.Errorf("rest: openapi.yaml: %w", err)
	}
	all, err := operations(document)
	if err != nil {
		return err
	}
	before := map[string][]echo.MiddlewareFunc{}
	for id, o := range all {
		before[id] = s.before(o)
	}
	contract.RegisterHandlersWithOptions(e, contract.NewStrictHandler(s, []contract.StrictMiddlewareFunc{guarded}), contract.RegisterHandlersOptions{OperationMiddlewares: before})
	return nil
}

// guarded lets nobody through to an operation before which nothing stands: the two lists are joined by name.
func guarded(next contract.StrictHandlerFunc, id string) contract.StrictHandlerFunc {
	return func(c echo.Context, request any) (any, error) {
		if callOf(c.Request().Context()) == nil {
			return nil, fmt.Errorf("rest: nothing stands before operation %s", id)
		}
		return next(c, request)
	}
}

// before is what an operation's request passes, in this order: whose it is, whether that is too many,
// whether the account is there, and whether the request makes sense.
func (s *server) before(o operation) []echo.MiddlewareFunc {
	chain := []echo.MiddlewareFunc{begin}
	if !strings.HasPrefix(o.path, "/api/") {
		return chain
	}
	switch {
	case o.tickets:
		chain = append(chain, s.ticketed)
	case !o.open:
		chain = append(chain, s.authenticate)
	}
	switch o.counted {
	case "sessions":
		chain = append(chain, s.limitSessions)
	case "commands":
		chain = append(chain, s.limitCommands)
	}
	if !o.open && o.method == http.MethodGet {
		chain = append(chain, s.readWithin(o), s.unerased)
	}
	if o.streams {
		chain = append(chain, s.limitStreams(o))
	}
	return append(chain, o.sensible)
}
