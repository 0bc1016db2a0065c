package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayskip matches files in which skips may find a call, so that few files are
// parsed.
var mayskip = regexp.MustCompile(`\bSkip(f|Now)?\b|\bShort\b`)

// A test that skips itself passes without proving anything. The missing
// counterpart has a name, so that CI can require it. In Go only
// counterpart.Missing skips; scripts skip by the conditions of TestScripts, and
// .ci/run fails for any other skip.
func TestReasonsOfSkips(t *testing.T) {
	t.Parallel()
	files := 0
	for _, p := range ownPackages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if files++; !mayskip.Match(text) {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, at := range skips(parsed) {
				if !strings.HasSuffix(p.ImportPath, "/counterpart") {
					t.Errorf("%s: a test skips itself: call counterpart.Missing, or have it run everywhere", set.Position(at))
				}
			}
		}
	}
	if files < 1000 {
		t.Errorf("%d files were read", files)
	}
}

// skips are the calls by which a test skips itself, and testing.Short. Tests,
// benchmarks and fuzz targets name their T, B, TB or F in this way throughout
// the repository.
func skips(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		f, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		of := ""
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		name := f.Sel.Name
		itself := slices.Contains([]string{"t", "b", "tb", "f"}, of) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name)
		if itself || of == "testing" && name == "Short" {
			at = append(at, f.Pos())
		}
		return true
	})
	return at
}

func TestSkips(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`t.Skip("no")`: 1, `func() { b.Skipf("%d", 1) }()`: 1, `h.t.SkipNow()`: 1, `testing.Short()`: 1, `t.Log(testing.Short)`: 0, `_ = past.Skipped`: 0, `t.Fatal()`: 0, `asn1.Skip()`: 0,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+text+" }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(skips(parsed)); got != want || got > 0 && !mayskip.MatchString(text) {
			t.Errorf("%s: %d skips, want %d", text, got, want)
		}
	}
}
