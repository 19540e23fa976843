package rest

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

const maxEmbedded = 64 << 10 // bytes of text

type embedBody struct {
	Text string `json:"text"`
}

// embed makes a vector of a text.
func (s *server) embed(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	var body embedBody
	if _, err := read(c, 8*maxEmbedded, &body); err != nil {
		return err
	}
	if strings.TrimSpace(body.Text) == "" {
		return invalid(wrong{Pointer: "/text", Detail: "is empty"})
	}
	if len(body.Text) > maxEmbedded {
		return fail("too_large", "text may have at most 65536 bytes")
	}
	vector, err := s.Embedder.Embed(c.Request().Context(), body.Text)
	if err != nil {
		if c.Request().Context().Err() != nil {
			return err
		}
		s.Log.WarnContext(c.Request().Context(), "embedding failed", "error", err, "trace_id", traceID(c))
		return &problem{Code: "unavailable", Detail: "the embedding model can't be reached", retryAfter: embedAgain}
	}
	return s.json(c, http.StatusOK, struct {
		Vector []float32 `json:"vector"`
	}{vector})
}
