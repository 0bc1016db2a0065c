package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web"
)

// TestReferenceTables compares tables of docs/reference with the code: the kinds of audit entries,
// the kinds of errors, and the reasons why evidence is refused. Their meanings are the comments of the
// constants. With -update it writes the tables.
func TestReferenceTables(t *testing.T) {
	t.Parallel()
	var problems, events, reasons []string
	kinds := meanings(stringConstants(t, "broker/errors.go"), stringConstants(t, "web/errors.go"))
	for _, k := range web.Kinds() {
		line := web.Lookup(k)
		problems = append(problems, fmt.Sprintf("`%s` | %d %s | `%s`, %d | %s", k, line.Status, line.Title, line.OAuth, line.OAuthStatus, kinds[string(k)]))
	}
	entries := meanings(stringConstants(t, "broker/audit/kind.go"))
	for _, k := range audit.Kinds() {
		if entries[k] == "" {
			t.Errorf("broker/audit/kind.go: %q has no comment that says its meaning", k)
		}
		events = append(events, fmt.Sprintf("`%s` | %s", k, entries[k]))
	}
	for _, c := range stringConstants(t, "attest/evidence.go") {
		if strings.HasPrefix(c.name, "Reason") {
			if c.meaning == "" {
				t.Errorf("attest/evidence.go: %s has no comment that says its meaning", c.name)
			}
			reasons = append(reasons, fmt.Sprintf("`%s` | %s", c.value, c.meaning))
		}
	}
	for _, table := range []struct {
		page, head string
		rows       []string
	}{
		{"errors.md", "kind | status and title | at /oauth2 | meaning", problems},
		{"errors.md", "reason | meaning", reasons},
		{"audit-events.md", "kind | meaning", events},
	} {
		checkTable(t, filepath.Join("../../docs/reference", table.page), table.head, table.rows)
	}
}

// checkTable compares the table with a head in a page with rows. With -update it writes them.
func checkTable(t *testing.T, page, head string, rows []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"| " + head + " |", "|" + strings.Repeat(" --- |", strings.Count(head, "|")+1)}
	for _, row := range rows {
		lines = append(lines, "| "+row+" |")
	}
	want := strings.Join(lines, "\n") + "\n"
	found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(head) + ` \|\n(\|.*\n)*`).FindStringIndex(string(text))
	if found == nil {
		t.Errorf("%s has no table with the head %q", page, head)
		return
	}
	if string(text[found[0]:found[1]]) == want {
		return
	}
	if !*update {
		t.Errorf("%s: the table %q is not what the code says: run go test ./cmd/ebb -run TestReferenceTables -update", page, head)
		return
	}
	if err := os.WriteFile(page, []byte(string(text[:found[0]])+want+string(text[found[1]:])), 0o644); err != nil {
		t.Fatal(err)
	}
}

type namedString struct{ name, value, meaning string }

// stringConstants returns the string constants of a file, with the comments after them.
func stringConstants(t *testing.T, name string) (out []namedString) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}
		if literal, is := spec.Values[0].(*ast.BasicLit); is && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, namedString{spec.Names[0].Name, value, strings.ReplaceAll(strings.TrimSpace(spec.Comment.Text()), "|", "\\|")})
		}
		return true
	})
	return out
}

// meanings returns the meanings of constants by their values.
func meanings(lists ...[]namedString) map[string]string {
	out := map[string]string{}
	for _, c := range slices.Concat(lists...) {
		out[c.value] = c.meaning
	}
	return out
}
