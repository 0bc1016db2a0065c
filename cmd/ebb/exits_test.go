package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ways out of custody: the files that may call Secret.Reveal, and those that
// may call Untrusted.Raw. Every other file sees "[redacted]" or nothing. A new
// line here is a decision about security and needs a reason.
var exits = map[string][]string{
	"Reveal": {
		"broker/provider/secret.go", // the type itself
	},
	"Raw": {
		"broker/agenttext/", // the type itself
	},
}

func TestClosedExits(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range house(t) {
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			rel, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range calls(t, file) {
				allowed, watched := exits[call]
				if watched && !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(filepath.ToSlash(rel), a) }) {
					t.Errorf("%s calls %s: list it in exits_test.go with its reason, or do without", rel, call)
				}
			}
		}
	}
}

// calls lists the watched methods that a file calls: by name and without
// arguments, which no other type of the house has.
func calls(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return nil
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CallExpr:
			if sel, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) == 0 && exits[sel.Sel.Name] != nil {
				names = append(names, sel.Sel.Name)
			}
		case *ast.SelectorExpr:
			// Handing the method itself to somebody is a way out, too.
			if x, ok := e.X.(*ast.SelectorExpr); ok && (x.Sel.Name == "Secret" || x.Sel.Name == "Untrusted") && exits[e.Sel.Name] != nil {
				names = append(names, e.Sel.Name)
			}
		}
		return true
	})
	return names
}
