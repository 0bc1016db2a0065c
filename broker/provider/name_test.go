package provider_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
)

func TestNameIsFoundAgainByItsOwner(t *testing.T) {
	const id = "lse_0192f0c1a2b37c3d8e9f00112233aabb"
	n := provider.Name("0a1b2c3d", id)
	if len(n) != 45 {
		t.Errorf("Name = %q, %d long", n, len(n))
	}
	if got, ok := provider.LeaseOf("0a1b2c3d", n); !ok || got != id {
		t.Errorf("LeaseOf(%q) = %q, %v", n, got, ok)
	}
	if _, ok := provider.LeaseOf("ffffffff", n); ok {
		t.Error("another installation takes the name for its own")
	}
	for _, bad := range []string{"", "ebb-", strings.ToUpper(n), n + "0", "x" + n, n + "\n", strings.Replace(n, "-", "_", 1)} {
		if _, ok := provider.LeaseOf("0a1b2c3d", bad); ok {
			t.Errorf("LeaseOf(%q) is accepted", bad)
		}
	}
	for _, c := range [][2]string{{"", id}, {"0a1b2c3", id}, {"0a1b2c3d", ""}, {"0a1b2c3d", "tsk_" + id[4:]}, {"0a1b2c3d", id + "'"}} {
		if got := provider.Name(c[0], c[1]); got != "" {
			t.Errorf("Name(%q, %q) = %q", c[0], c[1], got)
		}
	}
}
