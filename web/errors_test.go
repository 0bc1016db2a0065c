package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// declaredKinds reads the kinds from their source, so that a new kind without a
// row in the table fails here.
func declaredKinds(t *testing.T) []broker.Kind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../broker/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []broker.Kind
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Kind" {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, broker.Kind(text))
		}
	}
	if len(kinds) < 15 {
		t.Fatalf("found only %d kinds in broker/errors.go; does this test still read it right?", len(kinds))
	}
	return kinds
}

func TestEveryKindHasALine(t *testing.T) {
	t.Parallel()
	titles := map[string]broker.Kind{}
	for _, k := range declaredKinds(t) {
		line := web.Lookup(k)
		if k != broker.Internal && line == web.Lookup("no such kind") {
			t.Errorf("kind %q has no line in the table", k)
		}
		if !slices.Contains(web.Kinds(), k) {
			t.Errorf("kind %q is not listed by Kinds", k)
		}
		if other, taken := titles[line.Title]; taken {
			t.Errorf("kinds %q and %q share the title %q", k, other, line.Title)
		}
		titles[line.Title] = k
	}
}

func TestTableIsConsistent(t *testing.T) {
	t.Parallel()
	for _, k := range append(web.Kinds(), "no such kind", "") {
		line := web.Lookup(k)
		if line.Title == "" || line.OAuth == "" || http.StatusText(line.Status) == "" || http.StatusText(line.OAuthStatus) == "" {
			t.Errorf("kind %q: incomplete line %+v", k, line)
		}
		if line.OAuth != web.Description(line.OAuth) {
			t.Errorf("kind %q: error code %q has characters outside RFC 6749 section 5.2", k, line.OAuth)
		}
		if line.Status < 400 || line.OAuthStatus < 400 {
			t.Errorf("kind %q: %+v is no refusal", k, line)
		}
	}
	if got := web.Lookup("no such kind").Status; got != 500 {
		t.Errorf("unknown kind: got %d, want 500", got)
	}
}

// RFC 6749 section 5.2: 400, or 401 for invalid_client; 405, 429 and the 5xx
// are left to HTTP.
func TestOAuthStatuses(t *testing.T) {
	t.Parallel()
	for _, k := range web.Kinds() {
		line := web.Lookup(k)
		want := 400
		switch line.OAuth {
		case "invalid_client", "invalid_token":
			want = 401
		case "server_error":
			want = 500
		case "temporarily_unavailable":
			want = line.Status // 429 or 503
		}
		if k == web.MethodNotAllowed {
			want = 405
		}
		if line.OAuthStatus != want {
			t.Errorf("%q: got %d, want %d", k, line.OAuthStatus, want)
		}
	}
}
