package embed

import (
	"context"
	"math"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"
)

// Hashed embeds by counting: words, pairs of words, and sequences of 3 to 5 characters are hashed, twice
// and with a sign, into 1536 numbers; weighed by the logarithm of their count; and brought to length 1.
// It knows no meaning, but finds texts that share words or parts of words. Its zero value is ready.
type Hashed struct{}

// Name is stored with each vector.
func (Hashed) Name() string { return "hash-v1-1536" }

// Embed never fails. A text without letters or digits gets the zero vector.
func (Hashed) Embed(_ context.Context, text string) ([]float32, error) {
	counts := map[string]int{}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		counts["w:"+word]++
		if i > 0 {
			counts["p:"+words[i-1]+" "+word]++
		}
		grams(counts, word)
	}
	// Whole numbers, because the map has no order, sums of floats depend on theirs, and the same text
	// must have the same vector.
	var sums [Dimensions]int64
	for gram, n := range counts {
		weight := int64(math.Round((1 + math.Log(float64(n))) * share(gram) * 1024))
		h := xxhash.Sum64String(gram)
		for range 2 {
			slot, sign := h%Dimensions, int64(1)
			if h>>63 == 1 {
				sign = -1
			}
			sums[slot] += sign * weight
			h = h*0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019
		}
	}
	return normal(sums), nil
}

// share weighs whole words over pairs and parts: one word has many parts.
func share(gram string) float64 {
	switch gram[0] {
	case 'w':
		return 1
	case 'p':
		return 0.7
	}
	return 0.35
}

func grams(counts map[string]int, word string) {
	runes := []rune("<" + word + ">")
	for n := 3; n <= 5; n++ {
		for i := 0; i+n <= len(runes); i++ {
			counts["c:"+string(runes[i:i+n])]++
		}
	}
}

func normal(sums [Dimensions]int64) []float32 {
	var square float64
	for _, s := range sums {
		square += float64(s) * float64(s)
	}
	vector := make([]float32, Dimensions)
	if square == 0 {
		return vector
	}
	length := math.Sqrt(square)
	for i, s := range sums {
		vector[i] = float32(float64(s) / length)
	}
	return vector
}
