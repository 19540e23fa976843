// Package embed turns text into vectors of 1536 numbers: by hashed n-grams, without any service, or by an
// endpoint that speaks the OpenAI protocol. It stores nothing.
package embed

import "context"

// Dimensions is how many numbers every vector has.
const Dimensions = 1536

// Embedder makes a vector of a text. The same text always gets the same vector; vectors of two embedders
// must never be compared, which is why each has a name.
type Embedder interface {
	Embed(ctx context.Context, text string) ([]float32, error)
	Name() string
}
