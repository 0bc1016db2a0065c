package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	decisionFile = regexp.MustCompile(`^([0-9]{4})-[a-z0-9-]+\.md$`)
	decisionRow  = regexp.MustCompile(`(?m)^\| \[([0-9]{4})\]\(([^)]*)\) \| ([^|]*) \| [^|]*\. \|$`)
	decisionPart = regexp.MustCompile(`(?m)^## (.*)$`)
	decided      = regexp.MustCompile(`\n## Status\n\n(Accepted|Superseded by [^,]*), 20[0-9]{2}-[0-9]{2}-[0-9]{2}\.`)
)

// TestDecisionIndex compares the index of decisions with the records. Each record has one row
// below one topic, with its title and a sentence, and the rows of a topic are in the order of the
// numbers. Each record has a dated status and the same four parts.
func TestDecisionIndex(t *testing.T) {
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
		want = append(want, fmt.Sprintf("%s %s %s", name[1], f.Name(), title))
		var parts []string
		for _, part := range decisionPart.FindAllStringSubmatch(string(text), -1) {
			parts = append(parts, part[1])
		}
		if !slices.Equal(parts, []string{"Status", "Context", "Decision", "Consequences"}) || !decided.Match(text) {
			t.Errorf("%s has the parts %q; want Status (accepted or superseded, with its date), Context, Decision, Consequences", f.Name(), parts)
		}
	}
	for i, topic := range strings.Split(string(page), "\n## ") {
		var rows []string
		for _, row := range decisionRow.FindAllStringSubmatch(topic, -1) {
			rows = append(rows, fmt.Sprintf("%s %s %s", row[1], row[2], row[3]))
		}
		if name, _, _ := strings.Cut(topic, "\n"); !slices.IsSorted(rows) || (i == 0) != (len(rows) == 0) {
			t.Errorf("docs/decisions/README.md: the rows below %q are not in the order of their numbers, or not below a topic: %q", name, rows)
		}
		got = append(got, rows...)
	}
	slices.Sort(got)
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
