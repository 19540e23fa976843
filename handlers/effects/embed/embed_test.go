package embed_test

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func vector(t *testing.T, text string) []float32 {
	t.Helper()
	v, err := embed.Hashed{}.Embed(t.Context(), text)
	if err != nil || len(v) != embed.Dimensions {
		t.Fatalf("%d numbers, %v", len(v), err)
	}
	return v
}

func cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestTheSameTextHasTheSameVectorOfLengthOne(t *testing.T) {
	for _, text := range []string{"Buy milk", "Ärger über Öl", "你好 世界", strings.Repeat("long text with words ", 2000), "a"} {
		first := vector(t, text)
		for range 20 {
			if !slices.Equal(first, vector(t, text)) {
				t.Fatalf("%.20q has two vectors", text)
			}
		}
		if length := cosine(first, first); math.Abs(length-1) > 1e-5 {
			t.Errorf("%.20q has the length %f", text, length)
		}
	}
	if v := vector(t, " …!"); cosine(v, v) != 0 {
		t.Error("nothing has a direction")
	}
}

func TestTheNearestTextSharesTheWords(t *testing.T) {
	texts := []string{
		"Layer green and brown waste in the compost and keep it moist",
		"The deadline for the tax declaration is the end of July",
		"Grandmother's recipe for apple pie with cinnamon",
		"Meeting notes: the customer wants a faster search",
		"How to prune roses in the spring",
		"Password rules for the office network",
	}
	for query, want := range map[string]int{
		"brown compost": 0, "tax deadlines": 1, "apple pies": 2, "what did the customer want": 3, "pruning a rose": 4, "network passwords": 5,
	} {
		best, at := -1.0, -1
		for i, text := range texts {
			if c := cosine(vector(t, query), vector(t, text)); c > best {
				best, at = c, i
			}
		}
		if at != want {
			t.Errorf("%q found %q", query, texts[at])
		}
	}
}

func TestAnEndpointThatSpeaksTheProtocol(t *testing.T) {
	server, err := modeltest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer func() { server.Close(); transport.CloseIdleConnections() }()
	remote, err := embed.OpenAI(t.Context(), embed.OpenAIConfig{BaseURL: server.URL, Key: "k", Model: "small-embedding", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	v, err := remote.Embed(t.Context(), "Buy milk")
	if err != nil || len(v) != embed.Dimensions || remote.Name() != "small-embedding" {
		t.Fatalf("%d numbers, %v", len(v), err)
	}
	server.Close()
	if _, err := remote.Embed(t.Context(), "Buy milk"); err == nil {
		t.Error("a server that is gone answered")
	}
}
