package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	decisionFile = regexp.MustCompile(`^([0-9]{4})-[a-z0-9-]+\.md$`)
	decisionRow  = regexp.MustCompile(`(?m)^\| \[([0-9]{4})\]\(([^)]*)\) \| (.*) \|$`)
)

// TestHouseDecisions holds the list of decisions against the records: each has one row, in the
// order of their numbers, under its own heading.
func TestHouseDecisions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "decisions")
	files, err := os.ReadDir(dir) // sorted
	page, err2 := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	var want, got []string
	numbers := map[string]string{}
	for _, f := range files {
		name := decisionFile.FindStringSubmatch(f.Name())
		if name == nil {
			if f.Name() != "README.md" {
				t.Errorf("%s is no record: NNNN-words.md", f.Name())
			}
			continue
		}
		if other := numbers[name[1]]; other != "" {
			t.Errorf("%s and %s have one number", other, f.Name())
		}
		numbers[name[1]] = f.Name()
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		first, _, _ := strings.Cut(string(text), "\n")
		title, is := strings.CutPrefix(first, "# ")
		if err != nil || !is {
			t.Errorf("%s has no heading: %v", f.Name(), err)
		}
		title = strings.TrimPrefix(title, strings.TrimLeft(name[1], "0")+". ")
		want = append(want, fmt.Sprintf("%s %s %s", name[1], f.Name(), title))
	}
	for _, row := range decisionRow.FindAllStringSubmatch(string(page), -1) {
		got = append(got, fmt.Sprintf("%s %s %s", row[1], row[2], row[3]))
	}
	if len(want) < 60 {
		t.Errorf("%d records", len(want))
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Fatalf("docs/decisions/README.md has a row too many: %s", got[i])
		case i >= len(got):
			t.Fatalf("docs/decisions/README.md has no row: %s", want[i])
		case want[i] != got[i]:
			t.Fatalf("docs/decisions/README.md has %q where the records have %q", got[i], want[i])
		}
	}
}
