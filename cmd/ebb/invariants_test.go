package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInvariants collects the tags of all tests and compares them with
// docs/reference/invariants.md. With -update it writes the page.
func TestInvariants(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var tags []invariant
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != root || d.IsDir() && d.Name() == "testdata" {
			return cmp.Or(err, fs.SkipDir)
		}
		if strings.HasSuffix(name, "_test.go") {
			tags = append(tags, tagsOf(t, root, name)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := invariantsPage(tags)
	page := filepath.Join(root, "docs", "reference", "invariants.md")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/invariants.md is not what the tags of the tests say: run go test ./cmd/ebb -run TestInvariants -update")
	}
	for i := range promises {
		if !slices.ContainsFunc(tags, func(tag invariant) bool { return tag.number == i+1 && tag.check != "" }) {
			t.Errorf("no test names a check of I%d", i+1)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the documents that tests collect")

// promises are the invariants I1 to I12 in the words of the page.
var promises = []struct{ title, text string }{
	{"Record, then answer", "No credential leaves ebb before its lease is durable in the database. If the write fails, ebb revokes the credential and the caller receives 503."},
	{"Dead means dead", "Once ebb has acknowledged the end of a task, every replica, introspection and egress refuse all credentials of the task. ebb never mints for that task again."},
	{"No orphan", "A third-party credential is always live on record, confirmed revoked, or in the visible revocation queue, also after a kill of any process at any step."},
	{"Nothing outlives its frame", "A credential expires at the earliest of these limits: the request, the policy, the approved grant, the task's deadline, the parent credential and the evidence."},
	{"Scope only shrinks", "The requested scope, the approved grant, the ceiling of the task and the scope of the parent credential each cover the issued scope."},
	{"Deny by default, fail closed", "Every unknown is denied. While a needed fact cannot be determined, ebb mints and approves nothing; completing tasks and revoking credentials still work."},
	{"What was approved is what is minted", "An approval is bound to a digest of the exact facts that the approver was shown. An approver cannot decide requests of their own task."},
	{"Secrets have a type", "Secrets never appear in clear text in logs, errors, URLs, metrics or stores."},
	{"Agent text is data", "Agent text decides nothing, and every output shows it so that no text can hide in it."},
	{"One winner", "Every claim, take, redemption and decision is atomic in the store, so that exactly one caller succeeds."},
	{"Everything is on the record", "Each step is an entry of the audit log, a hash chain that a third party can verify offline."},
	{"Nothing explodes", "Every resource that a caller can use up has a limit."},
}

const pageIntro = `# The invariants and their tests

The tests below fail when ebb breaks one of its promises. This page is collected from the tests by
` + "`go test ./cmd/ebb -run TestInvariants -update`" + `. A test names the check that it proves in its comment:

	//ebb:invariant I7 Only the task's own sandbox redeems a deferral code

A tag without a sentence marks a test that attacks the invariant as a whole. To change a check, take it out of the code,
see the tests fail, and put the new one in. A new check comes with a test and its tag.
`

// invariant is one tag of a test.
type invariant struct {
	number     int    // 1 to 12
	check      string // "" = the invariant as a whole
	file, test string
}

// tagsOf returns the tags of the tests in one file.
func tagsOf(t *testing.T, root, name string) (tags []invariant) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is || fn.Doc == nil {
			continue
		}
		for _, c := range fn.Doc.List {
			text, is := strings.CutPrefix(c.Text, "//ebb:invariant I")
			if !is {
				continue
			}
			tag := invariant{file: filepath.ToSlash(rel), test: fn.Name.Name}
			number, check, _ := strings.Cut(text, " ")
			if _, err := fmt.Sscan(number, &tag.number); err != nil || tag.number < 1 || tag.number > len(promises) || strings.Contains(check, "|") || !strings.HasPrefix(tag.test, "Test") && !strings.HasPrefix(tag.test, "Fuzz") {
				t.Errorf("%s: write //ebb:invariant I1 to I12 and the check in one sentence without |, above a test", set.Position(c.Pos()))
			}
			tag.check = check
			tags = append(tags, tag)
		}
	}
	return tags
}

// invariantsPage writes the page: for each invariant the checks in the order of
// the packages that test them.
func invariantsPage(tags []invariant) string {
	var page strings.Builder
	page.WriteString(pageIntro)
	for i, promise := range promises {
		fmt.Fprintf(&page, "\n## I%d. %s\n\n%s\n\n| check | tests |\n| --- | --- |\n", i+1, promise.title, promise.text)
		var checks []string
		tests := map[string][]string{}
		for _, tag := range tags {
			if tag.number != i+1 {
				continue
			}
			if tag.check != "" && tests[tag.check] == nil {
				checks = append(checks, tag.check)
			}
			tests[tag.check] = append(tests[tag.check], fmt.Sprintf("[%s](../../%s)", tag.test, tag.file))
		}
		for _, check := range checks {
			fmt.Fprintf(&page, "| %s | %s |\n", check, strings.Join(tests[check], ", "))
		}
		if whole := tests[""]; len(whole) > 0 {
			fmt.Fprintf(&page, "\nThe invariant as a whole: %s.\n", strings.Join(whole, ", "))
		}
	}
	return page.String()
}
