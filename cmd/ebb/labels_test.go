package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	label    = regexp.MustCompile(`[AEH][0-9]{1,3}`)
	labelRow = regexp.MustCompile(`(?m)^\| ([AEH][0-9]{1,3}) \|.*\| ([^|]*) \|$`)
)

// labelsOf finds labels in a text, except as part of a word, a number or an
// escape.
func labelsOf(text string) (out []string) {
	within := func(i int, more string) bool {
		return i >= 0 && i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= 'a' && text[i] <= 'z' || strings.IndexByte(more, text[i]) >= 0)
	}
	for _, at := range label.FindAllStringIndex(text, -1) {
		if !within(at[0]-1, "%:&!/+-#") && !within(at[1], "") {
			out = append(out, text[at[0]:at[1]])
		}
	}
	return out
}

// TestConformanceLabels compares docs/reference/conformance.md with the tests: every label must
// be explained there, and every listed label must be in a test.
func TestConformanceLabels(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	shown := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		if !strings.HasSuffix(path, "_test.go") && !(folder == "attest/attesttest" && strings.HasSuffix(path, ".go")) || d.Name() == "labels_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, l := range labelsOf(string(text)) {
			if !slices.Contains(shown[l], folder) {
				shown[l] = append(shown[l], folder)
			}
		}
		return err
	})
	doc, err2 := os.ReadFile(filepath.Join(root, "docs", "reference", "conformance.md"))
	if err != nil || err2 != nil || len(shown) < 100 {
		t.Fatalf("%d labels: %v, %v", len(shown), err, err2)
	}
	for _, row := range labelRow.FindAllStringSubmatch(string(doc), -1) {
		folders := shown[row[1]]
		slices.Sort(folders)
		if want := "`" + strings.Join(folders, "`, `") + "`"; row[2] != want {
			t.Errorf("docs/reference/conformance.md says that %s is shown in %s, and its tests are in %s", row[1], row[2], want)
		}
		delete(shown, row[1])
	}
	for l, folders := range shown {
		t.Errorf("docs/reference/conformance.md does not say what %s is, which tests in %v have (or lists it twice): add a row, or say it in words", l, folders)
	}
}
