package console_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"html/template"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
)

// TestEveryCheckIsShown: each of the 40 acceptance checks of the console names
// a test, and each named Go test exists. Checks in Chromium are run by
// .ci/console.
func TestEveryCheckIsShown(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../.ci/console/shown.json")
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]struct{ Chromium, Go []string }
	d := json.NewDecoder(bytes.NewReader(raw))
	if d.DisallowUnknownFields(); d.Decode(&shown) != nil {
		t.Fatal("the table is not what it should be")
	}
	for n := 1; n <= 40; n++ {
		by := shown[strconv.Itoa(n)]
		if len(by.Chromium)+len(by.Go) == 0 {
			t.Errorf("nothing shows check %d", n)
		}
		for _, name := range by.Go {
			dir, fn, _ := strings.Cut(name, " ")
			if !testsOf(t, dir)[fn] {
				t.Errorf("check %d: there is no %s in %s", n, fn, dir)
			}
		}
	}
	if len(shown) > 40 {
		t.Errorf("%d checks", len(shown))
	}
}

// testsOf returns the tests in a directory of this repository.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	out := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, is := d.(*ast.FuncDecl); is && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				out[fn.Name.Name] = true
			}
		}
	}
	return out
}

// Acceptance check 10, second half: a template that prints agent text by
// mistake shows a marker, which all other tests look for.
func TestAgentTextPrintedByMistake(t *testing.T) {
	t.Parallel()
	r := broker.Request{Reason: agenttext.From("words of an agent")}
	for _, text := range []string{`{{.Reason}}`, `{{.Reason | html}}`, `{{printf "%s" .Reason}}`, `{{printf "%v" .Reason}}`, `<p title="{{.Reason}}">`, `<a href="{{.Reason}}">`, `{{print .}}`} {
		var b bytes.Buffer
		if err := template.Must(template.New("mistake").Parse(text)).Execute(&b, r); err != nil {
			t.Fatal(text, err)
		}
		if got := b.String(); strings.Contains(got, "words") || !strings.Contains(got, "UNRENDERED-UNTRUSTED") {
			t.Errorf("%s draws %s", text, got)
		}
	}
}
