package egress

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

// TestEveryReasonIsExplained: each reason for a refusal has a text on why, and on what to do next.
//
//ebb:invariant I2 An egress refusal states the next step for the caller, for every reason
func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	silent := []stricturl.Reason{NotTLS, NotSSH} // the connection is closed without a response
	asks := []stricturl.Reason{NoPlaceholder, NoCredential, NotAllowed}
	found := 0
	for _, dir := range []string{".", "../stricturl"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for _, r := range reasonsIn(t, name) {
				found++
				e, known := explanations[r]
				if _, ofSession := refusals[r]; known == (slices.Contains(silent, r) || !known && ofSession) {
					t.Errorf("%s is explained: %v", r, known)
				}
				if known && (e.why == "" || (e.next == "") != (retryable(e.status) || slices.Contains(asks, r)) || strings.HasSuffix(e.why, ".") || e.next != "" && !strings.HasSuffix(e.next, ".")) {
					t.Errorf("%s: %+v", r, e)
				}
			}
		}
	}
	if found != len(explanations)+len(silent)+3 { // three reasons are only for sessions
		t.Errorf("%d reasons were found", found)
	}
}

// reasonsIn returns the constants of type stricturl.Reason in a file.
func reasonsIn(t *testing.T, name string) (out []stricturl.Reason) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}
		value, is := spec.Values[0].(*ast.BasicLit)
		typed := ""
		switch of := spec.Type.(type) {
		case *ast.Ident:
			typed = of.Name
		case *ast.SelectorExpr:
			typed = of.Sel.Name
		}
		if is && typed == "Reason" {
			out = append(out, stricturl.Reason(strings.Trim(value.Value, `"`)))
		}
		return true
	})
	return out
}
