package embed

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cloudwego/eino-ext/components/embedding/openai"
	"github.com/cloudwego/eino/components/embedding"
)

// OpenAIConfig says where the endpoint is.
type OpenAIConfig struct {
	BaseURL string // such as https://api.openai.com/v1
	Key     string
	Model   string
	// Dimensions asks the endpoint for 1536 numbers; older models refuse to be asked.
	Dimensions bool
	Timeout    time.Duration // 0: 30 s
	Transport  http.RoundTripper
}

// Remote embeds by an endpoint that speaks the OpenAI protocol.
type Remote struct {
	model    string
	embedder embedding.Embedder
}

// OpenAI makes an embedder of that endpoint. It sends nothing yet.
func OpenAI(ctx context.Context, c OpenAIConfig) (*Remote, error) {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	config := &openai.EmbeddingConfig{
		BaseURL: c.BaseURL, APIKey: c.Key, Model: c.Model,
		HTTPClient: &http.Client{Timeout: c.Timeout, Transport: c.Transport},
	}
	if c.Dimensions {
		n := Dimensions
		config.Dimensions = &n
	}
	embedder, err := openai.NewEmbedder(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("embedding endpoint: %w", err)
	}
	return &Remote{model: c.Model, embedder: embedder}, nil
}

// Name is the endpoint's model.
func (r *Remote) Name() string { return r.model }

// Embed asks the endpoint once.
func (r *Remote) Embed(ctx context.Context, text string) ([]float32, error) {
	vectors, err := r.embedder.EmbedStrings(ctx, []string{text})
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	if len(vectors) != 1 || len(vectors[0]) != Dimensions {
		return nil, fmt.Errorf("embed: %s answered with %d vectors of %d numbers, not one of %d", r.model, len(vectors), length(vectors), Dimensions)
	}
	vector := make([]float32, Dimensions)
	for i, v := range vectors[0] {
		vector[i] = float32(v)
	}
	return vector, nil
}

func length(vectors [][]float64) int {
	if len(vectors) == 0 {
		return 0
	}
	return len(vectors[0])
}
