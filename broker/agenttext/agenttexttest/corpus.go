package agenttexttest

import (
	"embed"
	"io/fs"
	"strings"
	"testing"
)

//go:embed testdata/hostile/*.txt
var corpus embed.FS

// fewest texts there must be: a corpus that was lost would make every test pass.
const fewest = 50

// Hostile is the corpus, by name.
func Hostile(t testing.TB) map[string]string {
	t.Helper()
	files, err := fs.Glob(corpus, "testdata/hostile/*.txt")
	if err != nil || len(files) < fewest {
		t.Fatalf("hostile corpus: %d files, %v", len(files), err)
	}
	out := make(map[string]string, len(files))
	for _, name := range files {
		b, err := corpus.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(strings.TrimPrefix(name, "testdata/hostile/"), ".txt")] = string(b)
	}
	return out
}
