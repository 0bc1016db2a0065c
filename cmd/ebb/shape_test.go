//go:build !race

package main

import (
	"cmp"
	"go/ast"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The bounds of the code's shape. A change that exceeds one makes the code
// simpler first. Lower a bound when a change allows it. Raise one only in a
// commit that gives the reason.
const (
	maxMethods       = 40    // of one type
	maxFunctionLines = 100   // lines of one function
	maxGuesses       = 2.0   // clauses per 1,000 words that have a question word or an indefinite pronoun as subject, such as "what is"
	maxTokenWalk     = 150   // functions that a token request can pass up to the ports of the API
	maxCompleteWalk  = 80    // functions that the completion of a task can pass
	maxEgressWalk    = 359   // functions that an egress request can pass; the aim is 120
	maxProductLines  = 129e3 // without tests, kits and tools; the aim is 90e3
	maxMeanFiles     = 8.0   // files per package
	maxCircle        = 12    // files of a package that refer to each other
)

// circles are packages whose files form a circle of more than maxCircle. Each
// may shrink, and none may be added.
var circles = map[string]int{}

// walked are the handlers at which the walks begin.
var walked = map[string]int{
	"web/api.API).token":              maxTokenWalk,
	"web/api.API).completeTask":       maxCompleteWalk,
	"broker/egress.endpoint).request": maxEgressWalk,
}

// TestShape measures all packages of the repository.
func TestShape(t *testing.T) {
	t.Parallel()
	ps, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: "../.."}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	module := strings.TrimSuffix(ps[0].Module.Path, "/")
	methods, files, lines := map[string]int{}, 0, 0
	for _, p := range ps {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		dir := strings.TrimPrefix(p.PkgPath, module+"/")
		files += len(p.GoFiles)
		if !tool.MatchString(dir) {
			lines += countLines(t, p)
		}
		countMethods(t, p, dir, methods)
		if n, known := len(largestCircle(p)), cmp.Or(circles[dir], maxCircle); n > known {
			t.Errorf("%d files of %s refer to each other in a circle, more than %d: move the declarations that two areas share to a file that refers to neither", n, dir, known)
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, more than %d: divide it by what its methods use", name, n, maxMethods)
		}
	}
	if mean := float64(files) / float64(len(ps)); mean > maxMeanFiles {
		t.Errorf("a package has %.2f files on average, more than %.2f: join small files of one noun", mean, maxMeanFiles)
	}
	if lines > maxProductLines {
		t.Errorf("the product has %d lines, more than %.0f", lines, maxProductLines)
	}
	graph := references(ps, module)
	for entry, most := range walked {
		if n := walk(t, graph, entry); n > most {
			t.Errorf("a request at %s can pass %d functions, more than %d: remove a step or a check that is made twice", entry, n, most)
		}
	}
}

// tool matches the directories of test kits and tools, which are no product.
var tool = regexp.MustCompile(`(^|/)([a-z]*test|counterpart|demo|history|ebb-bench)(/|$)`)

func countLines(t *testing.T, p *packages.Package) (n int) {
	for _, name := range p.GoFiles {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(b), "\n")
	}
	return n
}

// countMethods counts the methods of each type, and reports functions that are
// too long.
func countMethods(t *testing.T, p *packages.Package, dir string, methods map[string]int) {
	for _, f := range p.Syntax {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			at := p.Fset.Position(fn.Pos())
			if n := p.Fset.Position(fn.End()).Line - at.Line; n >= maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", at.Filename, at.Line, fn.Name.Name, n, maxFunctionLines)
			}
			if fn.Recv == nil {
				continue
			}
			recv := fn.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if name, ok := recv.(*ast.Ident); ok {
				methods[dir+"."+name.Name]++
			}
		}
	}
}

// largestCircle returns the largest set of files of a package that all refer to
// each other, directly or by others.
func largestCircle(p *packages.Package) (worst []string) {
	owner := map[types.Object]string{}
	for ident, o := range p.TypesInfo.Defs {
		if f, isFunc := o.(*types.Func); isFunc && f.Signature().Recv() != nil || o != nil && o.Parent() == p.Types.Scope() {
			owner[o] = p.Fset.Position(ident.Pos()).Filename
		}
	}
	edges := map[string]map[string]bool{}
	for ident, o := range p.TypesInfo.Uses {
		from := p.Fset.Position(ident.Pos()).Filename
		if to := owner[o]; to != "" && to != from {
			if edges[from] == nil {
				edges[from] = map[string]bool{}
			}
			edges[from][to] = true
		}
	}
	reach := map[string]map[string]bool{}
	for from := range edges {
		reach[from] = reachable(edges, from)
	}
	for a := range edges {
		var circle []string
		for b := range reach[a] {
			if reach[b][a] {
				circle = append(circle, b)
			}
		}
		if len(circle) > len(worst) {
			worst = circle
		}
	}
	return worst
}

// reachable returns the nodes that edges lead to from one, itself only if some
// path leads back.
func reachable(edges map[string]map[string]bool, from string) map[string]bool {
	seen := map[string]bool{}
	for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
		for to := range edges[todo[0]] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}

// references maps each function of the module to the functions of the module that
// its body refers to. A call of an interface's method ends a walk.
func references(ps []*packages.Package, module string) map[string]map[string]bool {
	graph := map[string]map[string]bool{}
	for _, p := range ps {
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				out := map[string]bool{}
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						if c, ok := p.TypesInfo.Uses[id].(*types.Func); ok && c.Pkg() != nil && strings.HasPrefix(c.Pkg().Path(), module) {
							out[c.Origin().FullName()] = true
						}
					}
					return true
				})
				graph[p.TypesInfo.Defs[fn.Name].(*types.Func).FullName()] = out
			}
		}
	}
	return graph
}

// walk counts the functions that can be reached from the one whose full name
// ends with entry.
func walk(t *testing.T, graph map[string]map[string]bool, entry string) int {
	for name := range graph {
		if strings.HasSuffix(name, "/"+entry) {
			return len(reachable(graph, name)) + 1
		}
	}
	t.Errorf("no function ends with %s: name the handler as it is called now", entry)
	return 0
}

var (
	guess = regexp.MustCompile(`(?i)\b(what(ever)?|who(ever)?) (is|was|are|were|has|had|have|does|did|do|comes?|came|goes|went|stands?|stood|says?|said|asks?|asked|holds?|held|gives?|gave|gets?|got|can|could|may|must|will|would|nobody|somebody|it|they|one|cannot|there|belongs?|reads?|writes?|runs?|ends?|ended|begins?|leaves?|left|lets?|makes?|made|needs?|knows?|sees?|saw|waits?)\b|\bwhatever\b|\bwhoever\b|\bnobody('s)?\b|\bsomebody('s)?\b|\bsuch a one\b|\bthat one of\b`)
	words = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	fence = regexp.MustCompile("(?s)```.*?```")
)

// TestProseNamesItsSubjects counts clauses that leave their subject to the
// reader, in comments and in documents.
func TestProseNamesItsSubjects(t *testing.T) {
	t.Parallel()
	text := map[string]*strings.Builder{".go": {}, ".md": {}}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "testdata"):
			return fs.SkipDir
		case text[path.Ext(name)] == nil || d.Name() == "CHANGELOG.md":
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".md" {
			text[".md"].WriteString(fence.ReplaceAllString(string(content), "") + "\n")
			return nil
		}
		for line := range strings.SplitSeq(string(content), "\n") {
			if comment, is := strings.CutPrefix(strings.TrimSpace(line), "//"); is {
				text[".go"].WriteString(comment + " ")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(text)) {
		n := len(words.FindAllString(text[kind].String(), -1))
		found := guess.FindAllString(text[kind].String(), -1)
		if rate := 1000 * float64(len(found)) / float64(n); rate > maxGuesses {
			t.Errorf("%s: %.1f clauses per 1,000 words leave their subject to the reader, more than %.1f; the last are %q", kind, rate, maxGuesses, found[max(0, len(found)-5):])
		}
	}
}
