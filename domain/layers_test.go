package domain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cairnhq/cairn/"

// layers are the folders from right to left: code imports its own layer and those to the right only
// (DESIGN section 8). What no layer names (clients, deploy, …) imports none of them.
var layers = [][]string{{"domain"}, {"streams"}, {"projections", "migrations"}, {"handlers"}, {"cmd", "e2e", "bench"}}

// homes says where a library may be imported; tests may import any.
var homes = map[string][]string{
	"github.com/twmb/franz-go":            {"streams/kafka", "streams/pubsub", "cmd"},
	"github.com/ThreeDotsLabs/watermill":  {"streams/pubsub", "handlers/policies", "cmd"},
	"github.com/jackc/pgx":                {"projections", "migrations", "cmd", "bench", "e2e"},
	"github.com/pressly/goose":            {"migrations"},
	"github.com/cloudwego/eino":           {"handlers/effects", "cmd"},
	"github.com/cloudwego/eino-ext":       {"handlers/effects", "cmd"},
	"github.com/olahol/melody":            {"handlers/live"},
	"github.com/labstack/echo":            {"handlers/rest", "cmd"},
	"github.com/getkin/kin-openapi":       {"handlers/rest", "cmd"},
	"github.com/oapi-codegen":             {"handlers/rest", "clients"},
	"modernc.org/sqlite":                  {"clients"},
	"github.com/tink-crypto":              {"projections/vault", "streams", "handlers/accounts", "cmd"},
	"github.com/golang-jwt/jwt":           {"handlers/accounts"},
	"github.com/alexedwards/argon2id":     {"handlers/accounts"},
	"github.com/jedib0t/go-pretty":        {"cmd"},
	"github.com/alecthomas/kong":          {"cmd"},
	"github.com/santhosh-tekuri":          {"handlers"},
	"github.com/invopop/jsonschema":       {"handlers", "cmd"},
	"github.com/prometheus/client_golang": {"streams", "projections", "handlers", "cmd"},
	"go.opentelemetry.io/otel":            {"streams", "projections", "handlers", "cmd"},
	"go.opentelemetry.io/contrib":         {"handlers", "cmd"},
	"go.opentelemetry.io/otel/sdk":        {"cmd"},
	"go.opentelemetry.io/otel/exporters":  {"cmd"},
}

// shared are the folders of projections that a read model may import beside the engine.
var shared = []string{
	"projections", "projections/work", "projections/postgres", "projections/pgtest", "projections/writerstates", "projections/vault",
}

// pure is what domain may import.
var pure = []string{
	"bytes", "cmp", "encoding/base64", "encoding/hex", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits", "reflect",
	"regexp", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf16", "unicode/utf8",
}

// impure is what of those imports is a clock, randomness or I/O.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"fmt":  {"Print", "Println", "Printf", "Fprint", "Fprintln", "Fprintf", "Scan", "Scanln", "Scanf"},
}

// goFile is a parsed source.
type goFile struct {
	folder  string
	name    string
	test    bool
	imports []string
	tree    *ast.File
}

func sources(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	set := token.NewFileSet()
	root := ".."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && rel != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, rel, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		file := goFile{folder: filepath.ToSlash(filepath.Dir(rel)), name: filepath.ToSlash(rel), tree: f}
		// A folder of help for tests, such as pgtest, counts as a test, with all under it, and so does what only a build for the negative controls has.
		file.test = strings.HasSuffix(name, "_test.go") || strings.Contains(file.folder+"/", "test/") || strings.HasPrefix(string(text), "//go:build negative\n")
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			file.imports = append(file.imports, imported)
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func under(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

func layer(folder string) int {
	return slices.IndexFunc(layers, func(l []string) bool {
		return slices.ContainsFunc(l, func(parent string) bool { return under(folder, parent) })
	})
}

// wrong says what is wrong with an import, or nothing.
func wrong(f goFile, imported string) string {
	local, ours := strings.CutPrefix(imported, module)
	if !ours {
		return strange(f, imported)
	}
	from, to := layer(f.folder), layer(local)
	switch {
	case f.folder == ".", local == "domain/safety": // names, and a constant: everybody may import them
		return ""
	case from < 0 && !f.test && to >= 0:
		return "stands aside and imports none of the layers"
	case to > from && from >= 0 && to >= 0:
		return "is an import to the left"
	case from >= 0 && to < 0 && !f.test && f.folder != "cmd" && !under(f.folder, "cmd") && under(local, "clients"):
		return "imports a client"
	case f.test:
		return ""
	case f.folder == "domain" && under(local, "domain"):
		return "is the vocabulary and imports no aggregate"
	case under(f.folder, "domain") && f.folder != "domain/aggregates" && local != "domain":
		return "is one aggregate and imports package domain only"
	case f.folder == "streams" && under(local, "streams"):
		return "holds the ports and imports none of their sides"
	case under(f.folder, "streams/codec") && under(local, "streams/kafka"), under(f.folder, "projections") && under(local, "streams/kafka"):
		return "knows the log by its ports only"
	case under(f.folder, "projections") && f.folder != local && under(local, "projections") && !slices.Contains(shared, local) && !under(local, f.folder):
		return "is one read model and imports another"
	case f.folder == "migrations":
		return "is SQL and imports nothing"
	}
	return ""
}

func strange(f goFile, imported string) string {
	if f.test || layer(f.folder) < 0 && !under(f.folder, "clients") {
		return ""
	}
	if under(f.folder, "domain") && !slices.Contains(pure, imported) {
		return "is pure"
	}
	for library, folders := range homes {
		if under(imported, library) && !slices.ContainsFunc(folders, func(home string) bool { return under(f.folder, home) }) {
			return "is not where this library lives"
		}
	}
	return ""
}

// TestImportsGoOneWay: cmd -> handlers -> projections -> streams -> domain, and each library in its folders.
func TestImportsGoOneWay(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports {
			if why := wrong(f, imported); why != "" {
				t.Errorf("%s imports %s, but %s %s", f.name, imported, f.folder, why)
			}
		}
	}
}

// TestDomainIsPure: no clock, no randomness, no context, no I/O, and nothing that begins by itself.
func TestDomainIsPure(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || !under(f.folder, "domain") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[pkg.Name], n.Sel.Name) {
					t.Errorf("%s uses %s.%s", f.name, pkg.Name, n.Sel.Name)
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", f.name)
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s has an init", f.name)
				}
			}
			return true
		})
		for _, spec := range f.tree.Imports {
			if spec.Name != nil && impure[strings.Trim(spec.Path.Value, `"`)] != nil {
				t.Errorf("%s renames %s", f.name, spec.Path.Value)
			}
		}
	}
}

// TestTheLayersTestBites: each rule refuses what it is there for, and lets the rest pass.
func TestTheLayersTestBites(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		test, ok         bool
	}{
		{"domain/thread", "context", false, false},
		{"domain/thread", "math/rand/v2", false, false},
		{"domain/thread", "context", true, true},
		{"domain/thread", module + "domain", false, true},
		{"domain/thread", module + "domain/account", false, false},
		{"domain", module + "streams", true, false},
		{"domain/aggregates", module + "domain/thread", false, true},
		{"streams/kafka", module + "projections/vault", false, false},
		{"streams/kafka", module + "streams/codec", false, true},
		{"streams", module + "streams/codec", false, false},
		{"projections/runs", module + "projections/threads", false, false},
		{"projections/runs", module + "projections", false, true},
		{"projections/runs", module + "streams/kafka", false, false},
		{"projections", "github.com/twmb/franz-go/pkg/kgo", false, false},
		{"handlers/rest", module + "projections/runs", false, true},
		{"handlers/rest", module + "cmd/cairn", false, false},
		{"handlers/live", "github.com/cloudwego/eino/schema", false, false},
		{"clients/device", module + "domain", false, false},
		{"cmd/cairn", module + "clients/device", false, true},
		{"handlers/live", module + "clients/device", false, false},
		{"handlers/live", module + "clients/device", true, true},
	} {
		if why := wrong(goFile{folder: c.folder, test: c.test}, c.imported); (why == "") != c.ok {
			t.Errorf("%s imports %s (test: %v): %q", c.folder, c.imported, c.test, why)
		}
	}
}

// TestOnlySafetyKnowsTheTag: what a build for the negative controls has and the shipped one has not is one file.
func TestOnlySafetyKnowsTheTag(t *testing.T) {
	for _, f := range sources(t) {
		if f.folder == "domain/safety" {
			continue
		}
		for _, group := range f.tree.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:build") && strings.Contains(c.Text, "negative") {
					t.Errorf("%s depends on the tag", f.name)
				}
			}
		}
	}
}
