package rest

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
)

// call is what a handler knows of its request besides parameters and body, and where it says what stands
// beside its answer. Handlers know nothing of the router.
type call struct {
	router echo.Context
	body   []byte // as it came: fingerprints cover it
	at     uint64 // the position of the scope that the models waited for surely have
}

type callKey struct{}

// begin gives the request's context its call.
func begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), callKey{}, &call{router: c})))
		return next(c)
	}
}

// callOf is the call of a handler's context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call) // begin stands before every operation
	return c
}

// who is who calls.
func (c *call) who() accounts.Principal { return principal(c.router) }

// scope is whose data this is about.
func (c *call) scope() domain.Scope { return c.who().Scope }

// request is the request as it came.
func (c *call) request() *http.Request { return c.router.Request() }

// header is the answer's.
func (c *call) header() http.Header { return c.router.Response().Header() }

// traceID is the request's id.
func (c *call) traceID() string { return traceID(c.router) }

// remote is where the caller is, as far as callers are told apart by that.
func (c *call) remote() string { return household(c.router.RealIP()) }
