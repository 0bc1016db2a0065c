package github

import (
	"net/http"
	"testing"
)

// TestReadingChangesNothing: a permission with the level read covers only GET requests, because
// policies may grant it without an approval. GitHub's own name of a permission does not matter.
//
//ebb:invariant I6 A read permission of the GitHub provider covers only requests that change nothing, and none whose response may contain a clone token
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	for permission, levels := range table {
		for _, r := range levels[readLevel] {
			if r.method != http.MethodGet {
				t.Errorf("%s:%s: %s %v", permission, readLevel, r.method, r.pattern)
			}
		}
		for _, lines := range levels {
			for _, r := range lines {
				if len(r.pattern) == 0 {
					t.Errorf("%s: %s of the repository itself: its answer may hold a token", permission, r.method)
				}
			}
		}
	}
}
