package redisstore

import (
	"testing"
)

func TestCRC16(t *testing.T) {
	t.Parallel()
	// The check value of the Redis Cluster specification, appendix A.
	if got := crc16("123456789"); got != 0x31C3 {
		t.Errorf("got %#x, want 0x31c3", got)
	}
}

func TestLossMarkersAreSpread(t *testing.T) {
	t.Parallel()
	g := newGuard(true, "p:x")
	if len(g.markers) != markerCount {
		t.Fatalf("%d markerCount, want %d", len(g.markers), markerCount)
	}
	for i, b := range g.markers {
		slot := int(crc16(b.tag)) % slots
		if first := i * slots / markerCount; slot < first || slot >= first+slots/markerCount {
			t.Errorf("loss marker %d has slot %d", i, slot)
		}
	}
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"0-0": true, "1-2": true, "1795181608000-18446744073709551615": true,
		"": false, "1": false, "-": false, "01-1": false, "1-1-1": false, "-1-1": false, "+1-1": false, "$": false,
		"18446744073709551616-0": false, "18446744073709551615-18446744073709551615": false, "1-1 ": false,
	} {
		id, got := parseID(text)
		if got != ok || ok && id.String() != text {
			t.Errorf("parseID(%q) = %v, %t", text, id, got)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("1-1")
	f.Add("$")
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := parseID(text); ok && id.String() != text {
			t.Errorf("%q is %q", text, id.String())
		}
	})
}
