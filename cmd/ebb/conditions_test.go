package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// A condition that was disabled to see its test fail, and was not restored,
// compiles and passes vet: `if false`, `x && false`, `case true`.
func TestDocumentedConditions(t *testing.T) {
	t.Parallel()
	for _, p := range ownPackages(t) {
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if at := constant(n); at != nil {
					t.Errorf("%s: a condition is always the same", set.Position(at.Pos()))
				}
				return true
			})
		}
	}
}

// constant returns the literal that decides a condition, if there is one.
func constant(n ast.Node) ast.Expr {
	var decides []ast.Expr
	switch e := n.(type) {
	case *ast.IfStmt:
		decides = []ast.Expr{e.Cond}
	case *ast.ForStmt:
		decides = []ast.Expr{e.Cond}
	case *ast.SwitchStmt:
		for _, c := range e.Body.List {
			if e.Tag == nil {
				decides = append(decides, c.(*ast.CaseClause).List...)
			}
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			decides = []ast.Expr{e.X, e.Y}
		}
	case *ast.UnaryExpr:
		decides = []ast.Expr{e.X}
	}
	for _, x := range decides {
		if id, is := x.(*ast.Ident); is && (id.Name == "true" || id.Name == "false") {
			return id
		}
	}
	return nil
}
