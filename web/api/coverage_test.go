package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// elsewhere lists the numbered assertions that do not concern these endpoints.
func elsewhere() map[int]string {
	return map[int]string{
		74: "web/verify: what resource servers cache", 93: "attest/spiffe", 103: "web/console",
		107: "no SSF transmitter", 108: "no status list", 109: "cmd/ebb/internal/mcp", 110: "cmd/ebb/internal/mcp and web/verify",
	}
}

// TestEveryAssertionHasATest keeps the list of the reference complete: each of
// the 110 assertions is named by a test here or in package web, or has a
// reason.
func TestEveryAssertionHasATest(t *testing.T) {
	t.Parallel()
	named := map[int]bool{}
	number := regexp.MustCompile(`[^A-Za-z0-9]A(\d{1,3})`)
	for _, pattern := range []string{"*_test.go", "../*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range number.FindAllSubmatch(text, -1) {
				n, _ := strconv.Atoi(string(m[1]))
				named[n] = true
			}
		}
	}
	for n := 1; n <= 110; n++ {
		if reason := elsewhere()[n]; named[n] == (reason != "") {
			t.Errorf("A%d: named by a test %v, elsewhere because %q", n, named[n], reason)
		}
	}
}
