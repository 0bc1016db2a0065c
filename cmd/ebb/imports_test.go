package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImportGroups checks that every import block has at most three groups with
// a blank line between them: the standard library, third parties, this module.
func TestImportGroups(t *testing.T) {
	t.Parallel()
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go"):
			files++
			checkImports(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 1000 {
		t.Errorf("found only %d Go files under %s", files, root)
	}
}

// checkImports reports the first import of a file that is in the wrong group.
func checkImports(t *testing.T, path string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	for _, d := range f.Decls {
		block, is := d.(*ast.GenDecl)
		if !is || block.Tok != token.IMPORT {
			continue
		}
		group, end := -1, 0
		for _, s := range block.Specs {
			spec := s.(*ast.ImportSpec)
			start := fset.Position(spec.Pos()).Line
			if spec.Doc != nil {
				start = fset.Position(spec.Doc.Pos()).Line
			}
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			next := importGroup(name)
			if blank := start > end+1; group >= 0 && (next < group || blank != (next > group)) {
				t.Errorf("%s: import %q is in the wrong group: the groups are the standard library, third parties and this module, with one blank line between them", fset.Position(spec.Pos()), name)
				return
			}
			group, end = next, fset.Position(spec.End()).Line
		}
	}
}

// importGroup returns 0 for the standard library, 1 for third parties and 2 for
// this module. MODULE stands for this module in web/client/testdata/foreign.
func importGroup(name string) int {
	const module = "github.com/ebb-broker/ebb"
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == module, strings.HasPrefix(name, module+"/"), first == "MODULE":
		return 2
	case strings.Contains(first, "."):
		return 1
	}
	return 0
}
