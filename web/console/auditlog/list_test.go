package auditlog

import (
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/broker/audit"
)

// TestKindGroups: the menu has every kind once.
func TestKindGroups(t *testing.T) {
	t.Parallel()
	var all []string
	for _, g := range kindGroups() {
		if g.Label == "" || len(g.Kinds) == 0 {
			t.Errorf("%+v", g)
		}
		all = append(all, g.Kinds...)
	}
	if slices.Sort(all); !slices.Equal(all, audit.Kinds()) {
		t.Errorf("the menu has %v, want %v", all, audit.Kinds())
	}
}
