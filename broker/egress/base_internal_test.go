package egress

import "testing"

// TestOwnName: the Host that a browser page sends after its name was rebound to loopback is not one
// of the endpoint.
//
//ebb:invariant I6 An egress endpoint refuses base URL and information requests that a browser page sends under its own host name (DNS rebinding)
func TestOwnName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"box": true, "localhost": true, "localhost:3128": true, "ebb.localhost": true, "127.0.0.1:3128": true, "127.0.0.1": true, "[::1]:3128": true, "[::1]": true, "::1": true, "": true,
		"evil.example": false, "evil.example:3128": false, "127.0.0.1.evil.example": false, "localhost.evil.example:80": false, "evil.example.": false, "EVIL.EXAMPLE:1": false, "1.2.3": false, "a.localhost.": false,
	} {
		if got := ownName(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
