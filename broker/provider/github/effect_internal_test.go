package github

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
)

// TestEffectsAreOfPermissions: every entry of undone is an existing permission, with a short
// sentence. No permission that gives access to rights or secrets is called reversible.
func TestEffectsAreOfPermissions(t *testing.T) {
	for name, e := range undone {
		if p, known := permissions[name]; !known || p.where == elsewhere {
			t.Errorf("%s is no permission of a token", name)
		}
		if n := len(strings.Fields(e.Sentence)); n == 0 || n > 12 || e.Writes != provider.Yes {
			t.Errorf("%s: %+v", name, e)
		}
		if strings.Contains(name, "secrets") || strings.Contains(name, "admin") || name == "workflows" || name == "actions" {
			if e.Reversible != provider.No {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}
