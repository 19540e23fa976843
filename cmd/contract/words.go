package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

const module = "github.com/cairnhq/cairn"

// readWords reads the sources of the domain.
func readWords(root string) (*words, error) {
	w := &words{values: map[string][]any{}}
	reflector := jsonschema.Reflector{}
	if err := reflector.AddGoComments(module, filepath.Join(root, "domain")); err != nil {
		return nil, err
	}
	w.comments = map[string]string{}
	for name, text := range reflector.CommentMap {
		// The extractor joins the module's path with the folder as it was given.
		name = strings.Replace(name, filepath.ToSlash(filepath.Join(module, root, "domain")), module+"/domain", 1)
		w.comments[name] = strings.TrimSpace(strings.Join(strings.Fields(text), " "))
	}
	set := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join(root, "domain"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		w.constants(module+"/"+filepath.ToSlash(folder), file)
		return nil
	})
	return w, err
}

// constants notes the typed string constants of a file.
func (w *words) constants(pkg string, file *ast.File) {
	for _, d := range file.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.CONST {
			continue
		}
		for _, spec := range declared.Specs {
			s, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			typ, ok := s.Type.(*ast.Ident)
			if !ok {
				continue
			}
			for _, v := range s.Values {
				if literal, ok := v.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						w.values[pkg+"."+typ.Name] = append(w.values[pkg+"."+typ.Name], text)
					}
				}
			}
		}
	}
}
