package rest

import (
	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// nameSpan calls a request's span by its route: its path has ids in it.
func nameSpan(c echo.Context, route string) {
	span := trace.SpanFromContext(c.Request().Context())
	if !span.IsRecording() {
		return
	}
	id, _ := c.Get(keyRequest).(string)
	span.SetName(methodOf(c) + " " + route)
	span.SetAttributes(attribute.String("http.route", route), attribute.String("cairn.request_id", id))
}
