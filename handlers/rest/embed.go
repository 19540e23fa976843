package rest

import (
	"context"
	"strings"
	"time"

	"github.com/cairnhq/cairn/handlers/rest/contract"
)

const (
	maxEmbedded = 64 << 10 // bytes of text
	embedAgain  = 5 * time.Second
)

// Embed makes a vector of a text.
func (s *server) Embed(ctx context.Context, r contract.EmbedRequestObject) (contract.EmbedResponseObject, error) {
	if strings.TrimSpace(r.Body.Text) == "" {
		return nil, invalid(wrong{Pointer: "/text", Detail: "is empty"})
	}
	if len(r.Body.Text) > maxEmbedded {
		return nil, fail("too_large", "text may have at most 65536 bytes")
	}
	vector, err := s.Embedder.Embed(ctx, r.Body.Text)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.Log.WarnContext(ctx, "embedding failed", "error", err, "trace_id", callOf(ctx).traceID())
		return nil, &problem{Code: "unavailable", Detail: "the embedding model can't be reached", retryAfter: embedAgain}
	}
	return contract.Embed200JSONResponse{Body: contract.Embedding{Vector: vector}}, nil
}
