package rest

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // the document and its page
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/handlers/rest/contract"
)

//go:embed openapi.yaml
var openapi string

//go:embed docs/index.html
var indexPage string

//go:embed docs/reference.html
var referencePage string

// RapiDoc shows the document. It is MIT, and asks nobody but this server.
//
//go:embed docs/rapidoc-9.3.8.js.gz
var rapidoc string

//go:embed docs/LICENSE.txt
var rapidocLicence string

// asset is a file that is built in.
type asset struct {
	call   *call
	kind   string
	body   string
	packed bool // with gzip
}

// policy keeps a page from asking anybody but this server, and others from framing it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (a asset) write(w http.ResponseWriter) error {
	// Weak: packed and unpacked have the same.
	sum := sha256.Sum256([]byte(a.body))
	tag, header := fmt.Sprintf("W/%q", fmt.Sprintf("%x", sum[:8])), w.Header()
	header.Set(echo.HeaderCacheControl, "no-cache")
	header.Set("ETag", tag)
	header.Set(echo.HeaderContentSecurityPolicy, policy)
	header.Set(echo.HeaderReferrerPolicy, "no-referrer")
	if a.packed {
		header.Set(echo.HeaderVary, echo.HeaderAcceptEncoding)
	}
	if listed(a.call.request().Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set(echo.HeaderContentType, a.kind)
	from := io.Reader(strings.NewReader(a.body))
	if a.packed {
		if strings.Contains(a.call.request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
			header.Set(echo.HeaderContentEncoding, "gzip")
		} else {
			var err error
			if from, err = gzip.NewReader(from); err != nil {
				return fmt.Errorf("rest: a built-in file: %w", err)
			}
		}
	}
	w.WriteHeader(http.StatusOK)
	_, err := io.Copy(w, from) //nolint:gosec // what is unpacked is built in
	return err
}

// The operations that answer with one.

func (a asset) VisitGetIndexResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a asset) VisitGetReferenceResponse(w http.ResponseWriter) error     { return a.write(w) }
func (a asset) VisitGetReferenceFileResponse(w http.ResponseWriter) error { return a.write(w) }
func (a asset) VisitGetOpenAPIYAMLResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a asset) VisitGetAsyncAPIResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a asset) VisitGetOpenAPIJSONResponse(w http.ResponseWriter) error   { return a.write(w) }

const html = "text/html; charset=utf-8"

// GetIndex answers a page with links to what there is.
func (s *server) GetIndex(ctx context.Context, _ contract.GetIndexRequestObject) (contract.GetIndexResponseObject, error) {
	return asset{call: callOf(ctx), kind: html, body: indexPage}, nil
}

// GetReference answers the page that shows the document.
func (s *server) GetReference(ctx context.Context, _ contract.GetReferenceRequestObject) (contract.GetReferenceResponseObject, error) {
	return asset{call: callOf(ctx), kind: html, body: referencePage}, nil
}

// GetReferenceFile answers what that page needs.
func (s *server) GetReferenceFile(ctx context.Context, r contract.GetReferenceFileRequestObject) (contract.GetReferenceFileResponseObject, error) {
	switch r.File {
	case "rapidoc.js":
		return asset{call: callOf(ctx), kind: "text/javascript; charset=utf-8", body: rapidoc, packed: true}, nil
	case "LICENSE.txt":
		return asset{call: callOf(ctx), kind: "text/plain; charset=utf-8", body: rapidocLicence}, nil
	}
	return nil, fail("not_found", "there is no such file")
}

// GetOpenAPIYAML answers the document as it is written.
func (s *server) GetOpenAPIYAML(ctx context.Context, _ contract.GetOpenAPIYAMLRequestObject) (contract.GetOpenAPIYAMLResponseObject, error) {
	return asset{call: callOf(ctx), kind: "application/yaml", body: openapi}, nil
}

// GetAsyncAPI answers the document of the socket.
func (s *server) GetAsyncAPI(ctx context.Context, _ contract.GetAsyncAPIRequestObject) (contract.GetAsyncAPIResponseObject, error) {
	return asset{call: callOf(ctx), kind: "application/yaml", body: live.AsyncAPI()}, nil
}

// GetOpenAPIJSON answers the document as JSON.
func (s *server) GetOpenAPIJSON(ctx context.Context, _ contract.GetOpenAPIJSONRequestObject) (contract.GetOpenAPIJSONResponseObject, error) {
	document, err := contract.GetSpecJSON()
	if err != nil {
		return nil, fmt.Errorf("rest: openapi.yaml: %w", err)
	}
	return asset{call: callOf(ctx), kind: echo.MIMEApplicationJSON, body: string(document)}, nil
}
