package rest_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Whatever a page that is built in loads, it loads from this server.
func TestThePagesAskNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	links := regexp.MustCompile(`(?:src|href|spec-url)="([^"]*)"`)
	for _, page := range []string{"/", "/docs"} {
		got := r.nobody().get(page).want(http.StatusOK)
		if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", page, got.header)
		}
		found := links.FindAllStringSubmatch(string(got.raw), -1)
		if len(found) < 2 {
			t.Errorf("%s links to %v", page, found)
		}
		base, err := url.Parse(r.server.URL + page)
		check(t, err)
		for _, link := range found {
			to, err := base.Parse(link[1])
			check(t, err)
			if to.Host != base.Host {
				t.Errorf("%s asks %s", page, to)
			}
			r.nobody().get(to.RequestURI()).want(http.StatusOK)
		}
		r.nobody().get(page, header{"If-None-Match", got.header.Get("ETag")}).want(http.StatusNotModified)
	}
	plain := r.nobody().get("/docs/rapidoc.js").want(http.StatusOK)
	packed := r.nobody().get("/docs/rapidoc.js", header{"Accept-Encoding", "gzip"}).want(http.StatusOK)
	if packed.header.Get("Vary") == "" || !strings.HasPrefix(packed.header.Get("ETag"), "W/") { // two forms under one tag
		t.Errorf("packed: %v", packed.header)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(string(packed.raw)))
	check(t, err)
	same, err := io.ReadAll(unpacked)
	check(t, err)
	if packed.header.Get("Content-Encoding") != "gzip" || string(same) != string(plain.raw) || !strings.Contains(string(plain.raw[:200]), "RapiDoc") {
		t.Errorf("%d bytes packed, %d plain, %v", len(packed.raw), len(plain.raw), packed.header)
	}
	if text := string(r.nobody().get("/docs/LICENSE.txt").want(http.StatusOK).raw); !strings.Contains(text, "MIT License") {
		t.Errorf("the licence is %.100s", text)
	}
	r.nobody().get("/docs/nothing").problem(http.StatusNotFound, "not_found")
}

// The document that is served is the one that requests are held against.
func TestTheDocumentIsServed(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	for _, path := range []string{"/openapi.yaml", "/openapi.json"} {
		served, err := openapi3.NewLoader().LoadFromData(r.nobody().get(path).want(http.StatusOK).raw)
		check(t, err)
		if served.OpenAPI != "3.1.0" || len(served.Paths.Map()) != len(r.says.Paths.Map()) {
			t.Errorf("%s is OpenAPI %s with %d paths", path, served.OpenAPI, len(served.Paths.Map()))
		}
		check(t, served.Validate(t.Context()))
	}
}
