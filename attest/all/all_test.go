package all_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ebb/attest/all"
	"ebb/attest/enroll"
	"ebb/attest/jose"
)

type noTickets struct{}

func (noTickets) Redeem(context.Context, string, string) (enroll.Ticket, error) {
	return enroll.Ticket{}, nil
}

func env() all.Env {
	return all.Env{Issuer: "https://ebb.example", Tickets: noTickets{}, Keys: jose.KeySet{}.Key}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	const oidcConfig = `{"issuer":"https://i.example","audience":"https://ebb.example","jwks_url":"https://i.example/jwks"}`
	for _, tc := range []struct{ name, kind, config, problem string }{
		{"enroll", "enroll", "", ""},
		{"enroll", "enroll", "{}", ""},
		{"ci", "oidc", oidcConfig, ""},
		{"x", "spiffee", "", `there is no kind "spiffee"; the kinds are enroll, oidc`},
		{"x", "", "", "there is no kind"},
		{"x", "OIDC", oidcConfig, "there is no kind"},
		{"x", "enroll", `{"ttl":1}`, "takes none"},
		{"x", "oidc", "", "needs a config"},
		{"x", "oidc", "{}", "audience is empty"},
		{"x", "oidc", strings.Replace(oidcConfig, "{", `{"nope":1,`, 1), "nope"},
		{"", "oidc", oidcConfig, "name is empty"},
		{"", "enroll", "", "name and issuer"},
	} {
		a, err := all.Open(tc.name, tc.kind, []byte(tc.config), env())
		if tc.problem == "" && (a == nil || err != nil) {
			t.Errorf("%s %s: %v", tc.kind, tc.config, err)
		}
		if tc.problem != "" && (a != nil || err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s %s: got %v, %v; want an error with %q", tc.kind, tc.config, a, err, tc.problem)
		}
	}
	if a, err := all.Open("enroll", "enroll", nil, all.Env{}); a != nil || err == nil {
		t.Errorf("without an environment: got %v, %v", a, err)
	}
}

// TestTableIsComplete fails when a folder under attest has an Attest method and
// no line in the table, and the other way round.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range folders {
		if d.IsDir() && hasAttest(t, filepath.Join("..", d.Name())) {
			found = append(found, d.Name())
		}
	}
	if !slices.Equal(found, all.Kinds()) {
		t.Errorf("folders with an attestor: %v; kinds in the table: %v", found, all.Kinds())
	}
}

func hasAttest(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Attest" {
				return true
			}
		}
	}
	return false
}
