package main

import (
	"net/netip"
	"testing"
)

func TestPinned(t *testing.T) {
	t.Parallel()
	if r, err := newPinned(nil); r != nil || err != nil {
		t.Errorf("without --resolve: %v, %v", r, err)
	}
	if _, err := newPinned(map[string]string{"a.example": "b.example"}); exitOf(err) != exitUsage {
		t.Errorf("an address that is none: %v", err)
	}
	r, err := newPinned(map[string]string{"a.example": "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.LookupNetIP(t.Context(), "ip", "a.example."); err != nil || len(got) != 1 || got[0] != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a.example is %v, %v", got, err)
	}
}
