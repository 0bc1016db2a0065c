package postgres

import (
	"testing"
)

func TestSeparates(t *testing.T) {
	t.Parallel()
	for version, yes := range map[string]bool{
		"14.13": false, "15.20 (Debian 15.20-0+deb12u1)": false, "16.0": true, "17.10": true, "18beta1": true, "100.1": true, "": true, "x": true,
	} {
		if separates(version) != yes {
			t.Errorf("%q", version)
		}
	}
}
