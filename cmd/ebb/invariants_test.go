package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named matches a file and a function in it, as docs/invariants.md writes them.
var named = regexp.MustCompile("`([a-z0-9_/]+\\.go)` `([A-Za-z0-9_]+)`")

// TestInvariants checks docs/invariants.md, which lists where each invariant is
// enforced and which tests fail without it: the named files and functions must
// exist.
func TestInvariants(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	declared := func(file, name string) bool {
		if _, read := texts[file]; !read {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				t.Errorf("there is no %s", file)
			}
			texts[file] = string(text)
		}
		return regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `[\[(]`).MatchString(texts[file])
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) != 12 {
		t.Errorf("%d invariants, want 12", len(sections))
	}
	for i, section := range sections {
		id, _, _ := strings.Cut(section, ".")
		if want := fmt.Sprintf("I%d", i+1); id != want {
			t.Errorf("%s is where %s should be", id, want)
		}
		rows := 0
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| check ") {
				continue
			}
			if rows++; len(cells) != 3 || len(named.FindAllString(cells[1], -1)) != 1 {
				t.Errorf("%s: a row is a check, one place and its tests: %s", id, line)
				continue
			}
			for c, cell := range cells[1:] {
				found := named.FindAllStringSubmatch(cell, -1)
				if len(found) == 0 {
					t.Errorf("%s: no test is named: %s", id, line)
				}
				for _, f := range found {
					if test := strings.HasSuffix(f[1], "_test.go") && strings.HasPrefix(f[2], "Test"); test != (c == 1) {
						t.Errorf("%s: %s of %s is in the wrong column", id, f[2], f[1])
					}
				}
			}
		}
		if rows == 0 {
			t.Errorf("%s has no row", id)
		}
		for _, f := range named.FindAllStringSubmatch(section, -1) {
			if !declared(f[1], f[2]) {
				t.Errorf("%s: there is no %s in %s", id, f[2], f[1])
			}
		}
	}
}
